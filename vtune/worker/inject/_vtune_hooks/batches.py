"""How many samples a batch holds, seen from outside: the leading dimension of the first array in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# A batch of strings or of many small objects is not worth a search.
MOST_LOOKED_AT = 24
LARGEST = 2**32 - 1


def leading_dimension(batch: object) -> int:
    """0 when there is none."""
    waiting = [batch]
    for _ in range(MOST_LOOKED_AT):
        if not waiting:
            break
        thing = waiting.pop()
        if isinstance(thing, (tuple, list)):
            waiting.extend(reversed(thing[:MOST_LOOKED_AT]))
        elif isinstance(thing, Mapping):
            waiting.extend(reversed(list(thing.values())[:MOST_LOOKED_AT]))
        else:
            size = _first_size(thing)
            if size:
                return size
    return 0


def _first_size(thing: Any) -> int:
    # On the class: a user's object may answer any name from its own __getattr__.
    if not hasattr(type(thing), "shape"):
        return 0
    try:
        shape = thing.shape
        return min(int(shape[0]), LARGEST) if len(shape) else 0
    except Exception:
        return 0
