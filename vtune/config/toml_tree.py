"""Where the keys and values of a TOML text stand. The text is TOML: that was checked by whoever asks."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from typing import Literal

from vtune.config.edit_problem import Path

_SPACE = re.compile(r"[ \t]*")
_SPACE_AND_COMMENTS = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# The closing quotes of a text of several lines may have two more of their kind before them.
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:\\.|[^"\\])*"' r"|'[^']*'",
    re.DOTALL,
)
# A date may have its time behind a space.
_WORD = re.compile(r"\d{4}-\d\d-\d\d \d\d:[^\s,\]}#]+|[^\s,\]}#]+")


@dataclass(slots=True)
class Statement:
    """`keys = value`, whose keys count from the header above it."""

    keys: Path
    # Behind each of the keys.
    key_ends: tuple[int, ...]
    start: int
    value: Node


@dataclass(slots=True, eq=False)
class Section:
    """What stands below one header; the first has none."""

    path: Path
    start: int
    header_end: int
    statements: list[Statement] = field(default_factory=list)


@dataclass(slots=True)
class Node:
    kind: Literal["value", "list", "inline", "table", "tables"]
    start: int = 0
    end: int = 0
    items: list[Node] = field(default_factory=list)
    members: dict[str, Node] = field(default_factory=dict)
    # Where the keys of a table stand; None of one that has nothing but tables below it.
    section: Section | None = None


@dataclass(slots=True)
class TomlTree:
    root: Node
    sections: list[Section]


def toml_tree(text: str) -> TomlTree:
    at = 1 if text.startswith("\ufeff") else 0
    section = Section((), at, at)
    tree = TomlTree(Node("table", section=section), [section])
    table = tree.root
    while (at := _after(_SPACE_AND_COMMENTS, text, at)) < len(text):
        if text[at] != "[":
            statement = _statement(text, at)
            section.statements.append(statement)
            _put(table, statement, section)
            at = statement.value.end
            continue
        many = text.startswith("[[", at)
        keys, ends = _keys(text, at + (2 if many else 1))
        closed = _after(_SPACE, text, ends[-1]) + (2 if many else 1)
        section = Section(keys, at, closed)
        tree.sections.append(section)
        table = _table(tree.root, keys, section, many=many)
        at = closed
    return tree


def _table(root: Node, keys: Path, section: Section, *, many: bool) -> Node:
    node = root
    for key in keys[:-1]:
        node = node.members.setdefault(key, Node("table"))
        # Of a list of tables the last is meant.
        node = node.items[-1] if node.kind == "tables" else node
    found = node.members.setdefault(keys[-1], Node("tables" if many else "table"))
    if many:
        found.items.append(Node("table"))
        found = found.items[-1]
    found.section = section
    return found


def _put(table: Node, statement: Statement, section: Section | None) -> None:
    for key in statement.keys[:-1]:
        table = table.members.setdefault(key, Node("table"))
        table.section = section
    table.members[statement.keys[-1]] = statement.value


def _statement(text: str, start: int) -> Statement:
    keys, ends = _keys(text, start)
    equals = _after(_SPACE, text, ends[-1])
    return Statement(keys, ends, start, _value(text, _after(_SPACE, text, equals + 1)))


def _keys(text: str, at: int) -> tuple[Path, tuple[int, ...]]:
    keys: list[str] = []
    ends: list[int] = []
    while True:
        at = _after(_SPACE, text, at)
        end = _after(_STRING if text[at] in "\"'" else _BARE_KEY, text, at)
        (key,) = tomllib.loads(f"{text[at:end]} = 0")
        keys.append(key)
        ends.append(end)
        at = _after(_SPACE, text, end)
        if text[at] != ".":
            return tuple(keys), tuple(ends)
        at += 1


def _value(text: str, start: int) -> Node:
    if text[start] == "[":
        return _list(text, start)
    if text[start] == "{":
        return _inline(text, start)
    return Node("value", start, _after(_STRING if text[start] in "\"'" else _WORD, text, start))


def _list(text: str, start: int) -> Node:
    node = Node("list", start)
    at = _after(_SPACE_AND_COMMENTS, text, start + 1)
    while text[at] != "]":
        node.items.append(_value(text, at))
        at = _past_comma(text, node.items[-1].end)
    node.end = at + 1
    return node


def _inline(text: str, start: int) -> Node:
    node = Node("inline", start)
    at = _after(_SPACE_AND_COMMENTS, text, start + 1)
    while text[at] != "}":
        statement = _statement(text, at)
        _put(node, statement, None)
        # Whatever comes last is what a further key is put behind.
        node.items.append(statement.value)
        at = _past_comma(text, statement.value.end)
    node.end = at + 1
    return node


def _past_comma(text: str, at: int) -> int:
    at = _after(_SPACE_AND_COMMENTS, text, at)
    return _after(_SPACE_AND_COMMENTS, text, at + 1) if text[at] == "," else at


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    if found is None:
        raise ValueError(f"at character {at}: {text[at : at + 20]!r}")
    return found.end()
