"""What a batch is like, seen from outside: the shape of the first array in it, which also counts its samples."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import Any

# A batch of strings or of many small objects is not worth a search.
MOST_LOOKED_AT = 24
LARGEST = 2**32 - 1
# Summed once for each shape: a batch of a list of tensors by sample is looked at whole.
MOST_SUMMED = 4096


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


def sizes_of(batch: object) -> dict[str, Any]:
    """Of all tensors in it: what a worker hands over through shared memory; the segments that it makes for them there;
    what pinning them takes, for which each is rounded up to a power of two. Of some, to tell rows from samples: the
    first two dimensions, and how long the lists are that hold them, the batch itself apart."""
    waiting, seen, handed, pinned = [batch], 0, 0, 0
    heads: list[list[int]] = []
    lengths: list[int] = []
    segments: dict[int, int] = {}
    while waiting and seen < MOST_SUMMED:
        thing = waiting.pop()
        seen += 1
        if isinstance(thing, (tuple, list)):
            waiting.extend(thing[:MOST_SUMMED])
            if seen > 1 and len(lengths) < MOST_LOOKED_AT:
                lengths.append(len(thing))
        elif isinstance(thing, Mapping):
            waiting.extend(list(thing.values())[:MOST_SUMMED])
        elif hasattr(type(thing), "untyped_storage"):
            size = _bytes_of(thing)
            handed += size
            shape = _shape(thing) if len(heads) < MOST_LOOKED_AT else None
            if shape is not None:
                heads.append([int(number) for number in shape[:2]])
            place, whole = _storage_of(thing, size)
            segments[place] = -(-whole // mmap.PAGESIZE) * mmap.PAGESIZE
            pinned += 1 << (size - 1).bit_length() if size else 0
        elif hasattr(type(thing), "__dataclass_fields__"):
            waiting.extend(vars(thing).values() if hasattr(thing, "__dict__") else ())
    return {
        "bytes": handed,
        "segment_bytes": sum(segments.values()),
        "pinned_bytes": pinned,
        "heads": heads,
        "lengths": lengths,
    }


def leading_of(shape: tuple[Any, ...] | None) -> int:
    """0 when there is none."""
    return 0 if shape is None else min(int(shape[0]), LARGEST)


def _bytes_of(tensor: Any) -> int:
    try:
        return int(tensor.numel()) * int(tensor.element_size())
    except Exception:
        return 0


def _storage_of(tensor: Any, size: int) -> tuple[int, int]:
    """Where it lies, and its size: a part of a larger tensor is handed over with all of that, once for all parts."""
    try:
        storage = tensor.untyped_storage()
        return int(storage.data_ptr()), max(size, int(storage.nbytes()))
    except Exception:
        return id(tensor), size


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
