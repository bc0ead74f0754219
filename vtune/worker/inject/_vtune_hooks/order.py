"""In which order a loader's samples come: by its sampler where that is one of torch's, else by the indices it gives.

Nothing is drawn and nothing is asked of a sampler of the training's own.
"""

from __future__ import annotations

from typing import Any

SHUFFLED, FILE_ORDER, UNKNOWN = "shuffled", "file_order", "unknown"
# So many indices tell an order: sorted ones would come by chance once in 10¹³.
ENOUGH = 16
# In random order they reach over this much of the data set; those of a small buffer that wanders do not.
REACH = 0.5

_BY_SAMPLER = {
    "RandomSampler": SHUFFLED,
    "SubsetRandomSampler": SHUFFLED,
    "WeightedRandomSampler": SHUFFLED,
    "SequentialSampler": FILE_ORDER,
}


class Order:
    """Of one pass."""

    def __init__(self, iterator: Any) -> None:
        sampler = getattr(iterator, "_index_sampler", None)
        inner = getattr(sampler, "sampler", sampler)
        self.told = _by_class(inner)
        self._length = _length(iterator) if self.told is None else None
        self._seen: list[int] = []

    def look(self, index: Any) -> str | None:
        """At what the sampler gave for one batch; the order, once it is known by that."""
        if self.told is not None:
            return None
        for one in index if type(index) in (list, tuple) else (index,):
            if type(one) is not int:
                self.told = UNKNOWN
                return None
            self._seen.append(one)
        if len(self._seen) < ENOUGH:
            return None
        self.told = self._by_indices()
        return self.told

    def _by_indices(self) -> str:
        seen, self._seen = self._seen, []
        if seen == sorted(seen):
            return FILE_ORDER
        reaches = self._length is not None and max(seen) - min(seen) >= REACH * self._length
        return SHUFFLED if reaches else UNKNOWN


def _by_class(sampler: Any) -> str | None:
    """None where only the indices can tell."""
    kind = type(sampler)
    if not kind.__module__.startswith(("torch.utils.data.", "torchdata.")):
        return None
    if kind.__name__ == "DistributedSampler":
        return SHUFFLED if getattr(sampler, "shuffle", False) else FILE_ORDER
    if kind.__name__ == "_InfiniteConstantSampler":
        # The data set decides by itself.
        return UNKNOWN
    return _BY_SAMPLER.get(kind.__name__)


def _length(iterator: Any) -> int | None:
    try:
        return len(iterator._dataset)
    except Exception:
        return None
