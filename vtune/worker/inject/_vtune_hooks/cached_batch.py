"""A batch kept to be fed again: copied each time, for scripts change theirs in place, and put together with itself."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

# A batch of strings or of many small objects is not worth a search.
MOST_LOOKED_AT = 1000


class CannotBeDoubled(Exception):
    """With the reason, in words."""


def fresh_copy(batch: Any) -> Any:
    """With nothing of the original's memory in it. Pinned stays pinned: that is how it gets to its device at once."""
    return _rebuilt(batch, _copy_of_leaf)


def _copy_of_leaf(leaf: Any) -> Any:
    if isinstance(leaf, _tensor_class()):
        made = leaf.detach().clone()
        if leaf.device.type == "cpu" and leaf.layout is sys.modules["torch"].strided and leaf.is_pinned():
            made = made.pin_memory()
        return made
    if isinstance(leaf, (str, bytes, int, float, bool, complex, type(None))):
        return leaf
    return copy.deepcopy(leaf)


def doubled(batch: Any, sizes: Collection[int]) -> tuple[Any, list[str]]:
    """Everything whose leading dimension is one of the sizes, twice; and what was left as it is, in words. There is
    more than one size where a sample becomes several crops."""
    left: list[str] = []
    found = [0]

    def twice(leaf: Any) -> Any:
        if _leading(leaf) in sizes:
            found[0] += 1
            return _joined(leaf)
        what = _words(leaf)
        if what is not None and what not in left:
            left.append(what)
        return leaf

    made = _rebuilt(batch, twice, sizes=sizes, found=found)
    if not found[0]:
        raise CannotBeDoubled(
            f"nothing in its batches ({type(batch).__name__}) has the samples as its leading dimension"
        )
    return made, left


def size_of(batch: Any) -> int:
    """The leading dimension that most of its arrays share; 0 without any."""
    seen: list[int] = []

    def look(leaf: Any) -> Any:
        leading = _leading(leaf)
        if leading:
            seen.append(leading)
        return leaf

    _rebuilt(batch, look)
    return max(seen, key=seen.count) if seen else 0


def bytes_of(batch: Any) -> int:
    total = [0]

    def add(leaf: Any) -> Any:
        size = getattr(leaf, "nbytes", 0)
        total[0] += size if isinstance(size, int) else 0
        return leaf

    _rebuilt(batch, add)
    return total[0]


def _rebuilt(
    thing: Any, leaf: Callable[[Any], Any], *, sizes: Collection[int] = (), found: list[int] | None = None
) -> Any:
    """The same structure, each leaf exchanged. With `sizes`, lists of so many samples are doubled themselves."""

    def inner(one: Any) -> Any:
        return _rebuilt(one, leaf, sizes=sizes, found=found)

    if isinstance(thing, (list, tuple)):
        if found is not None and len(thing) in sizes and not _is_structure(thing, sizes):
            found[0] += 1
            return type(thing)([*thing, *thing])  # of samples: strings, or arrays that differ in shape
        if len(thing) > MOST_LOOKED_AT:
            return copy.deepcopy(thing) if found is None else thing
        if isinstance(thing, tuple) and hasattr(thing, "_fields"):
            return type(thing)(*(inner(one) for one in thing))
        return type(thing)([inner(one) for one in thing])
    if isinstance(thing, Mapping):
        return _with_items(thing, {key: inner(value) for key, value in thing.items()})
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        made = copy.copy(thing)
        for field in dataclasses.fields(thing):
            object.__setattr__(made, field.name, inner(getattr(thing, field.name)))
        return made
    return leaf(thing)


def _is_structure(items: Any, sizes: Collection[int]) -> bool:
    """[inputs, targets] of a batch of two is no list of two samples: what it holds are whole batches."""
    return hasattr(items, "_fields") or any(_holds_batches(one, sizes) for one in items)


def _holds_batches(thing: Any, sizes: Collection[int]) -> bool:
    if isinstance(thing, Mapping):
        return any(_leading(one) in sizes for one in thing.values())
    if isinstance(thing, (list, tuple)):
        return any(_leading(one) in sizes for one in thing) or (len(thing) in sizes and _are_plain(thing))
    return _leading(thing) in sizes


def _are_plain(items: Any) -> bool:
    return bool(items) and all(isinstance(one, (str, bytes, int, float)) for one in items)


def _with_items(thing: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    if type(thing) is dict:
        return items
    made: Any = copy.copy(thing)
    try:
        for key, value in items.items():
            made[key] = value
    except TypeError:
        return items
    return made


def _leading(leaf: Any) -> int:
    # On the class: a user's object may answer any name from its own __getattr__.
    if not hasattr(type(leaf), "shape"):
        return 0
    try:
        shape = leaf.shape
        return int(shape[0]) if len(shape) else 0
    except Exception:
        return 0


def _joined(leaf: Any) -> Any:
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if isinstance(leaf, _tensor_class()):
        assert torch is not None
        made = torch.cat([leaf, leaf])
        pinned = leaf.device.type == "cpu" and leaf.layout is torch.strided and leaf.is_pinned()
        return made.pin_memory() if pinned else made
    if numpy is not None and isinstance(leaf, numpy.ndarray):
        return numpy.concatenate([leaf, leaf])
    raise CannotBeDoubled(f"its batches hold a {type(leaf).__name__}, which vtune cannot put together with itself")


def _words(leaf: Any) -> str | None:
    """Single numbers and words are nothing that a batch has one of each sample of."""
    if isinstance(leaf, (str, bytes, int, float, bool, complex, type(None))):
        return None
    if hasattr(type(leaf), "shape"):
        shape = tuple(leaf.shape)
        return f"a {type(leaf).__name__} of shape {shape}" if shape else None
    return f"a {type(leaf).__name__}"


def _tensor_class() -> Any:
    return getattr(sys.modules.get("torch"), "Tensor", ())
