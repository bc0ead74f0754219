"""Which stretches of a TOML text another value takes the place of."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from vtune.config.edit_problem import INTERPOLATION, CannotEdit, Path, Plain, Splice, dotted, line_end_of
from vtune.config.toml_tree import Node, Section, TomlTree, toml_tree

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ASSIGNED = re.compile(r"[ \t]*=[ \t]*")


def toml_splices(text: str, path: Path, value: Plain) -> list[Splice]:
    """The text is TOML; that was checked by whoever asks."""
    if value is None:
        raise CannotEdit(f"TOML has no null for {dotted(path)}")
    tree = toml_tree(text)
    node = tree.root
    for depth, key in enumerate(path):
        where = dotted(path[:depth])
        if node.kind == "tables":
            raise CannotEdit(f"{where} is a list of tables")
        if node.kind in ("value", "list"):
            raise CannotEdit(f"{where} holds no keys")
        if key not in node.members:
            if depth < len(path) - 1:
                raise CannotEdit(f"there is no {dotted(path[: depth + 1])} to put {path[-1]} into")
            return [_inserted(text, tree, node, path, value)]
        node = node.members[key]
    if node.kind == "tables":
        raise CannotEdit(f"{dotted(path)} is a list of tables")
    if node.kind in ("inline", "table"):
        raise CannotEdit(f"{dotted(path)} holds keys of its own")
    return list(_replaced(text, node, dotted(path), value))


def _replaced(text: str, node: Node, name: str, value: Plain) -> Iterator[Splice]:
    old = text[node.start : node.end]
    if INTERPOLATION.search(old):
        raise CannotEdit(f"{name} is {old}: its value comes from elsewhere")
    if node.kind == "list" and isinstance(value, list) and len(value) == len(node.items):
        for one, new in zip(node.items, value, strict=True):
            if not _is(text[one.start : one.end], new):
                yield one.start, one.end, _written(new)
    elif node.kind == "value" and "\n" in old:
        raise CannotEdit(f"{name} stands on several lines")
    else:
        yield node.start, node.end, _in_the_manner_of(old, value)


def _is(old: str, new: object) -> bool:
    found: Any = tomllib.loads(f"x = {old}")["x"]
    return type(found) is type(new) and found == new


def _in_the_manner_of(old: str, value: Plain) -> str:
    """With the quotes that stood there, where they can hold it."""
    if not isinstance(value, str):
        return _written(value)
    for quotes in ('"""', "'''", "'"):
        # Nothing that would need a word of its own for a character, or could be taken for the end.
        if old.startswith(quotes) and value.isprintable() and "\\" not in value and quotes[0] not in value:
            return f"{quotes}{value}{quotes}"
    return _written(value)


def _written(value: Plain) -> str:
    match value:
        case str():
            # As JSON has it, but that DEL is a control character here.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case bool():
            return "true" if value else "false"
        case list():
            return "[" + ", ".join(map(_written, value)) + "]"
        case _:
            return repr(value)


def _inserted(text: str, tree: TomlTree, parent: Node, path: Path, value: Plain) -> Splice:
    new = f"{_key(path[-1])} = {_written(value)}"
    if parent.kind == "inline":
        if not parent.items:
            return parent.start, parent.end, f"{{ {new} }}"
        end = parent.items[-1].end
        return end, end, f", {new}"
    if parent.section is None:
        return _with_a_header(text, tree, path, new)
    return _below_siblings(text, tree, parent.section, path, value)


def _below_siblings(text: str, tree: TomlTree, section: Section, path: Path, value: Plain) -> Splice:
    """Behind the last key of the same table, so that what is said above the next table stays there."""
    inner = path[len(section.path) : -1]
    siblings = [one for one in section.statements if one.keys[: len(inner)] == inner]
    if not siblings:
        return _below_header(text, tree, section, f"{_key(path[-1])} = {_written(value)}")
    last = siblings[-1]
    indent = text[text.rfind("\n", 0, last.start) + 1 : last.start].removeprefix("\ufeff")
    before = ""
    if inner:
        behind = last.key_ends[len(inner) - 1]
        before = f"{text[last.start : behind]}."
    equals = _ASSIGNED.match(text, last.key_ends[-1])
    assigned = "=" if equals is not None and equals[0] == "=" else " = "
    return _after_line(text, last.value.end, f"{indent}{before}{_key(path[-1])}{assigned}{_written(value)}")


def _below_header(text: str, tree: TomlTree, section: Section, line: str) -> Splice:
    if section.path:
        indent = text[text.rfind("\n", 0, section.start) + 1 : section.start].removeprefix("\ufeff")
        return _after_line(text, section.header_end, indent + line)
    if len(tree.sections) > 1:
        at = _with_comments_above(text, tree, tree.sections[1])
        return at, at, line + line_end_of(text)
    # Nothing but comments.
    between = "" if not text.strip("\ufeff") or text.endswith("\n") else line_end_of(text)
    return len(text), len(text), between + line + (line_end_of(text) if text.endswith("\n") else "")


def _with_a_header(text: str, tree: TomlTree, path: Path, line: str) -> Splice:
    """Of a table that is known from the tables below it: before the first of those."""
    above = path[:-1]
    first = next((one for one in tree.sections if one.path[: len(above)] == above), None)
    if first is None:
        raise CannotEdit(f"there is no line to put {dotted(path)} after")
    at, ends = _with_comments_above(text, tree, first), line_end_of(text)
    return at, at, f"[{'.'.join(map(_key, above))}]{ends}{line}{ends}{ends}"


def _with_comments_above(text: str, tree: TomlTree, section: Section) -> int:
    """Where the comment begins that stands right above a header."""
    before = tree.sections[tree.sections.index(section) - 1]
    # The last line of a text of several lines may look like a comment.
    floor = before.statements[-1].value.end if before.statements else before.header_end
    at = max(text.rfind("\n", 0, section.start) + 1, floor)
    while at > floor:
        above = text.rfind("\n", 0, at - 1) + 1
        if above < floor or not text[above:at].lstrip().startswith("#"):
            break
        at = above
    return at


def _after_line(text: str, at: int, line: str) -> Splice:
    end = text.find("\n", at)
    if end < 0:
        return len(text), len(text), line_end_of(text) + line
    return end + 1, end + 1, line + line_end_of(text)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _written(key)
