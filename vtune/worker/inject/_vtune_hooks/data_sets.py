"""Whether a loader made anew goes over the same data: a number for each data set that looks different from outside.

An epoch whose loader is built anew has the same data as the one before. A loader built for each chunk of an epoch has
not. None of the user's code is called: attributes of plain types are read, and arrays are told apart by identity.
"""

from __future__ import annotations

from typing import Any

from _vtune_hooks.attached import Attached

# More of a data set is not read: its first attributes name its files, its root, its part.
MOST_ATTRIBUTES, MOST_CHARS = 50, 200
# A data set in a data set, as torch's Subset and ConcatDataset have it.
DEEPEST = 3
# So many say enough; a run of months may have one for each pass.
MOST_LOOKS = 1000

_numbers: Attached[int] = Attached()
_looks: dict[str, int] = {}


def number_of(dataset: Any) -> int | None:
    if dataset is None:
        return None
    known = _numbers.get(dataset)
    if known is not None:
        return known
    try:
        look = _look(dataset, DEEPEST)
    except Exception:
        return None  # a class whose attributes cannot be read
    if look not in _looks and len(_looks) >= MOST_LOOKS:
        return None
    number = _looks.setdefault(look, len(_looks))
    try:
        _numbers.set(dataset, number)
    except TypeError:
        pass  # a list or a tuple: looked at again each time
    return number


def _look(value: Any, deeper: int) -> str:
    kind = type(value)
    if kind is str:
        return f"{len(value)} {value[:MOST_CHARS]!r}"
    if value is None or kind in (bool, int, float):
        return repr(value)[:MOST_CHARS]
    if kind.__module__.startswith("pathlib"):
        return str(value)[:MOST_CHARS]
    if kind in (list, tuple, range):
        ends = [_look(value[at], deeper - 1) for at in (0, -1)] if len(value) and deeper else []
        return f"{kind.__name__} {len(value)} {ends}"
    if kind in (dict, set, frozenset, bytes):
        return f"{kind.__name__} {len(value)}"
    if hasattr(kind, "__array__"):
        is_number = kind.__module__ == "numpy" and getattr(value, "ndim", None) == 0
        return repr(value)[:MOST_CHARS] if is_number else f"{kind.__name__} {id(value)}"
    attributes = getattr(value, "__dict__", None)
    is_data = deeper == DEEPEST or hasattr(kind, "__getitem__")
    if not deeper or not is_data or type(attributes) is not dict:
        # A transform, a lock, a generator: nothing of which data these are.
        return kind.__name__
    told = list(attributes.items())[:MOST_ATTRIBUTES]
    return f"{kind.__name__} {[(name, _look(one, deeper - 1)) for name, one in told]}"
