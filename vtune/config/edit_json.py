"""Where the values of a JSON text stand."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from vtune.config.edit_problem import CannotEdit, Path, Plain, Splice, dotted, line_end_of

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


def json_splices(text: str, changes: Mapping[Path, Plain]) -> list[Splice]:
    """The text is JSON; that was checked by whoever asks."""
    top = _value(text, _skip(text, 1 if text.startswith("\ufeff") else 0))
    found: list[Splice] = []
    missing: dict[Path, list[tuple[str, Plain]]] = {}
    for path, value in changes.items():
        node, above = _member(top, path)
        if node is not None:
            found.append((node.start, node.end, json.dumps(value, ensure_ascii=False)))
        elif len(above) == len(path) - 1:
            missing.setdefault(above, []).append((path[-1], value))
        else:
            raise CannotEdit(f"there is no {dotted(path[:-1])} to put {path[-1]} into")
    for above, new in missing.items():
        parent = _member(top, above)[0] if above else top
        if parent is None or parent.members is None:
            raise CannotEdit(f"{dotted(above)} holds no keys")
        found.append(_inserted(text, parent, new))
    return found


def _inserted(text: str, parent: _Value, new: list[tuple[str, Plain]]) -> Splice:
    """After the last member, in the manner of those that are there."""
    written = [f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}" for key, value in new]
    if parent.members:
        last = parent.members[-1]
        begins = text.rfind("\n", 0, last.key_start)
        gap = text[begins + 1 : last.key_start]
        # Members on lines of their own have nothing but space before them.
        between = f",{line_end_of(text)}{gap}" if begins >= 0 and not gap.strip() else ", "
        return last.value.end, last.value.end, "".join(f"{between}{one}" for one in written)
    return parent.start, parent.end, "{" + ", ".join(written) + "}"


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
    if text[start] != "{":
        return _Value(start, _DECODER.raw_decode(text, start)[1])
    members: list[_Member] = []
    at = _skip(text, start + 1)
    while text[at] != "}":
        key, end = _DECODER.raw_decode(text, at)
        value = _value(text, _skip(text, _skip(text, end) + 1))
        members.append(_Member(key, at, value))
        at = _skip(text, value.end)
        at = _skip(text, at + 1) if text[at] == "," else at
    return _Value(start, at + 1, tuple(members))
