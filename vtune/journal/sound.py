"""Whether what was read has the types that it is declared to have. Fields of foreign journals must not reach arithmetic
as text."""

from __future__ import annotations

import dataclasses
import functools
import re
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

# Beyond it, sums and squares leave what a float can hold.
LARGEST = 1e100
# Amounts, as the units in their names tell: none of them can be below nothing. (A temperature can, and so can a
# difference of two clocks.)
_AMOUNT = re.compile(r"bytes|per_s|samples|steps|cores|batch|trial|ranks|seconds|(epoch|run)_s|cost")


def is_sound(value: object, kind: Any) -> bool:
    """Whole numbers may be written as 3.0, and words from a closed list may be words of a newer list."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(is_sound(value, one) for one in inner)
    if origin is Literal:
        return isinstance(value, tuple({type(word) for word in inner}))
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if inner[-1] is Ellipsis:
            return all(is_sound(one, inner[0]) for one in value)
        return len(value) == len(inner) and all(map(is_sound, value, inner))
    if origin is not None:
        return isinstance(value, Mapping) and all(
            is_sound(key, inner[0]) and is_sound(one, inner[1]) for key, one in value.items()
        )
    if kind in (int, float):
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST
    if not isinstance(value, kind):
        return False
    return not dataclasses.is_dataclass(value) or all(
        is_sound(field := getattr(value, name), hint) and not _below_nothing(name, field)
        for name, hint in _hints(kind).items()
    )


def _below_nothing(name: str, value: object) -> bool:
    amounts = value if isinstance(value, tuple) else (value,)
    return _AMOUNT.search(name) is not None and any(isinstance(one, int | float) and one < 0 for one in amounts)


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
