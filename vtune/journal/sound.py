"""Whether what was read has the types that it is declared to have. Fields of foreign journals must not reach arithmetic
as text."""

from __future__ import annotations

import dataclasses
import functools
import re
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

# Beyond it, sums and squares leave what a float can hold.
LARGEST = 1e100
# Amounts, as the units in their names tell: none of them can be below nothing. (A temperature can, and so can a
# difference of two clocks.)
_AMOUNT = re.compile(r"bytes|per_s|samples|steps|cores|batch|trial|ranks|seconds|(epoch|run)_s|cost")

Check = Callable[[object], bool]


def is_sound(value: object, kind: Any) -> bool:
    """Whole numbers may be written as 3.0, and words from a closed list may be words of a newer list."""
    return _check_of(kind)(value)


@functools.cache
def _check_of(kind: Any) -> Check:
    """A journal may have ten thousand lines of some hundred fields: what a type asks for is looked up once."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value: True
    if origin in (Union, types.UnionType):
        checks = [_check_of(one) for one in inner if one is not types.NoneType]
        without = types.NoneType not in inner
        return lambda value: any(check(value) for check in checks) if value is not None or without else True
    if origin is Literal:
        words = tuple({type(word) for word in inner})
        return lambda value: isinstance(value, words)
    if origin is tuple:
        return _each(_check_of(inner[0])) if inner[-1] is Ellipsis else _in_turn([_check_of(one) for one in inner])
    if origin is not None:
        return _of_mapping(_check_of(inner[0]), _check_of(inner[1]))
    if kind in (int, float):
        return _is_number
    plain: type = kind
    if not dataclasses.is_dataclass(kind):
        return lambda value: isinstance(value, plain)
    fields = [(name, _check_of(hint), _AMOUNT.search(name) is not None) for name, hint in get_type_hints(kind).items()]
    return lambda value: (
        isinstance(value, plain)
        and all(
            check(field := getattr(value, name)) and not (amount and _below_nothing(field))
            for name, check, amount in fields
        )
    )


def _each(check: Check) -> Check:
    return lambda value: isinstance(value, tuple) and all(map(check, value))


def _in_turn(checks: list[Check]) -> Check:
    return lambda value: (
        isinstance(value, tuple)
        and len(value) == len(checks)
        and all(check(one) for check, one in zip(checks, value, strict=True))
    )


def _of_mapping(key: Check, item: Check) -> Check:
    return lambda value: isinstance(value, Mapping) and all(key(name) and item(one) for name, one in value.items())


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST


def _below_nothing(value: object) -> bool:
    amounts = value if isinstance(value, tuple) else (value,)
    return any(isinstance(one, int | float) and one < 0 for one in amounts)
