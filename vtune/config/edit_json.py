"""Where the values of a JSON text stand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vtune.config.edit_problem import INTERPOLATION, CannotEdit, Path, Plain, Splice, dotted, line_end_of

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class _Member:
    key: str
    key_start: int
    value: _Value


@dataclass(frozen=True, slots=True)
class _Value:
    start: int
    end: int
    # Of an object.
    members: tuple[_Member, ...] | None = None
    # Of a list.
    items: tuple[_Value, ...] | None = None


def json_splices(text: str, path: Path, value: Plain) -> list[Splice]:
    """The text is JSON; that was checked by whoever asks."""
    top = _value(text, _skip(text, 1 if text.startswith("\ufeff") else 0))
    node, above = _member(top, path)
    if node is not None:
        return list(_replaced(text, node, path, value))
    parent = _member(top, above)[0]
    if parent is None or parent.members is None:
        raise CannotEdit(f"{dotted(above) or 'it'} holds no keys")
    if len(above) < len(path) - 1:
        raise CannotEdit(f"there is no {dotted(path[: len(above) + 1])} to put {path[-1]} into")
    return [_inserted(text, parent, f"{json.dumps(path[-1], ensure_ascii=False)}: {_written(path, value)}")]


def _replaced(text: str, node: _Value, path: Path, value: Plain) -> Iterator[Splice]:
    old = text[node.start : node.end]
    if node.members is not None:
        raise CannotEdit(f"{dotted(path)} holds keys of its own")
    if INTERPOLATION.search(old):
        raise CannotEdit(f"{dotted(path)} is {old}: its value comes from elsewhere")
    if isinstance(value, list) and node.items is not None and len(node.items) == len(value):
        for one, new in zip(node.items, value, strict=True):
            found: Any = json.loads(text[one.start : one.end])
            if type(found) is not type(new) or found != new:
                yield one.start, one.end, _written(path, new)
    else:
        yield node.start, node.end, _written(path, value)


def _written(path: Path, value: Plain) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise CannotEdit(f"JSON has no {value} for {dotted(path)}") from error


def _inserted(text: str, parent: _Value, new: str) -> Splice:
    """After the last member, in the manner of those that are there."""
    if parent.members:
        last = parent.members[-1]
        begins = text.rfind("\n", 0, last.key_start)
        gap = text[begins + 1 : last.key_start]
        # Members on lines of their own have nothing but space before them.
        between = f",{line_end_of(text)}{gap}" if begins >= 0 and not gap.strip() else ", "
        return last.value.end, last.value.end, f"{between}{new}"
    begins = text.rfind("\n", parent.start, parent.end)
    if begins < 0:
        return parent.start, parent.end, "{" + new + "}"
    ends = line_end_of(text)
    step = re.search(r"\n([ \t]+)", text)
    indent = text[begins + 1 : parent.end - 1] + (step[1] if step else "  ")
    return parent.start + 1, parent.start + 1, f"{ends}{indent}{new}"


def _member(top: _Value, path: Path) -> tuple[_Value | None, Path]:
    """And how far there is something."""
    node = top
    for depth, key in enumerate(path):
        inner = next((one.value for one in node.members or () if one.key == key), None)
        if inner is None:
            return None, path[:depth]
        node = inner
    return node, path


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _value(text: str, start: int) -> _Value:
    match text[start]:
        case "{":
            return _object(text, start)
        case "[":
            return _list(text, start)
        case _:
            return _Value(start, _DECODER.raw_decode(text, start)[1])


def _object(text: str, start: int) -> _Value:
    members: list[_Member] = []
    at = _skip(text, start + 1)
    while text[at] != "}":
        key, end = _DECODER.raw_decode(text, at)
        value = _value(text, _skip(text, _skip(text, end) + 1))
        members.append(_Member(key, at, value))
        at = _past_comma(text, value.end)
    return _Value(start, at + 1, members=tuple(members))


def _list(text: str, start: int) -> _Value:
    items: list[_Value] = []
    at = _skip(text, start + 1)
    while text[at] != "]":
        items.append(_value(text, at))
        at = _past_comma(text, items[-1].end)
    return _Value(start, at + 1, items=tuple(items))


def _past_comma(text: str, at: int) -> int:
    at = _skip(text, at)
    return _skip(text, at + 1) if text[at] == "," else at
