"""Does the data set keep what it reads? A first epoch that fills a cache costs something else than the ones after it.

Looked at are the lengths of what the data set holds itself, and of the caches of its own functions: no entry is read,
nothing is called but `len` of Python's own containers and `cache_info` of Python's own caches.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from functools import lru_cache
from typing import Any

# Before these batches: few looks, at distances that grow.
LOOKS = (2, 4, 8, 16, 32, 64)
# So many looks in a row at which a container had grown by this share of the samples read since the one before.
IN_A_ROW = 2
SHARE = 0.5
# Data sets inside of data sets (a subset, a transform around another one).
DEEP = 4
# A list of so many places is counted by those that are filled.
LONGEST = 20_000

_GROWS = (dict, list, set, OrderedDict, defaultdict, deque)
_CACHE = type(lru_cache(maxsize=1)(lambda: None))


class KeptSamples:
    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._batches = 0
        self._samples = 0
        self._before: dict[str, int] = {}
        self._read_before = 0
        self._grew: dict[str, int] = {}
        self.over = dataset is None

    def begin(self, samples: int) -> str | None:
        """Before a batch of so many samples is made; the name of what grows, once that is shown."""
        self._batches += 1
        found = self._look() if self._batches in LOOKS else None
        self._samples += max(1, samples)
        self.over = found is not None or self._batches >= LOOKS[-1]
        return found

    def _look(self) -> str | None:
        now = held(self._dataset)
        read = self._samples - self._read_before
        found = None
        for name, count in now.items():
            grows = name in self._before and read > 0 and count - self._before[name] >= SHARE * read
            self._grew[name] = self._grew.get(name, 0) + 1 if grows else 0
            if self._grew[name] >= IN_A_ROW:
                found = name
        self._before, self._read_before = now, self._samples
        return found


def held(dataset: Any) -> dict[str, int]:
    """How many entries each container of it has, by its name."""
    found: dict[str, int] = {}
    for depth in range(DEEP):
        attributes = getattr(dataset, "__dict__", None)
        if not isinstance(attributes, dict):
            break
        prefix = "dataset." * depth
        for name, value in list(attributes.items()):
            if type(value) in _GROWS:
                found[prefix + name] = _entries(value)
            elif type(value) is _CACHE:
                found[prefix + name] = value.cache_info().currsize
        for kind in type(dataset).__mro__:
            for name, value in list(vars(kind).items()):
                if type(value) is _CACHE:
                    found[prefix + name] = value.cache_info().currsize
        dataset = attributes.get("dataset")
    return found


def _entries(value: Any) -> int:
    """A list of places that wait for their samples grows by being filled."""
    if type(value) is list and len(value) <= LONGEST:
        return sum(one is not None for one in value)
    return len(value)
