"""What a batch is like, seen from outside: the shape of the first array in it, which also counts its samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# A batch of strings or of many small objects is not worth a search.
MOST_LOOKED_AT = 24
LARGEST = 2**32 - 1


def first_shape(batch: object) -> tuple[Any, ...] | None:
    """As the array itself tells it, never empty and never of no samples; None when there is none."""
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
            shape = _shape(thing)
            if shape is not None:
                return shape
    return None


def leading_of(shape: tuple[Any, ...] | None) -> int:
    """0 when there is none."""
    return 0 if shape is None else min(int(shape[0]), LARGEST)


def _shape(thing: Any) -> tuple[Any, ...] | None:
    # On the class: a user's object may answer any name from its own __getattr__.
    if not hasattr(type(thing), "shape"):
        return None
    try:
        shape = thing.shape
        if not isinstance(shape, tuple):
            shape = tuple(shape)
        return shape if shape and shape[0] > 0 else None
    except Exception:
        return None
