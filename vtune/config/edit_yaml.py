"""Where the values of a YAML text stand, with what its author linked: anchors, merges, interpolations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from vtune.config.edit_problem import INTERPOLATION, CannotEdit, Path, Plain, Splice, dotted, line_end_of

# Before a value: its anchor and its tag stay.
_PROPERTIES = re.compile(r"(?:[&!]\S*[ \t]+)*")
# Words of YAML 1.1 for true and false, by pairs.
_SWITCHES = {"true": "false", "yes": "no", "on": "off"}
_BY_WORD = {word: pair for yes, no in _SWITCHES.items() for pair in [(no, yes)] for word in pair}
_USUAL_INDENT = 2


@dataclass(slots=True)
class _Node:
    kind: str
    start: int
    end: int
    line: int
    column: int
    last_line: int
    anchor: str | None = None
    text: str = ""
    style: str | None = None
    flow: bool = False
    pairs: list[tuple[_Node, _Node]] = field(default_factory=list)
    items: list[_Node] = field(default_factory=list)


def yaml_splices(text: str, path: Path, value: Plain) -> list[Splice]:
    """The text is one YAML document; that was checked by whoever asks."""
    root = _tree(text)
    if root is None or root.kind != "mapping":
        raise CannotEdit("it holds no keys")
    return list(_splices(text, root, path, value))


def check_once(text: str, path: Path) -> None:
    """Of a key that stands there twice a reader may take either, also where the last one says what is wanted."""
    node = _tree(text)
    for depth in range(len(path)):
        node = _value_of(node, path[: depth + 1]) if node is not None else None


def links_to(text: str, path: Path) -> str | None:
    """What else has the value at this path, or something around it, by an anchor; in words."""
    node, anchors = _tree(text), []
    for depth, key in enumerate(path):
        node = next((value for name, value in node.pairs if name.text == key), None) if node is not None else None
        if node is not None and node.anchor is not None:
            anchors.append((node.anchor, dotted(path[: depth + 1])))
    aliases = (event for event in yaml.parse(text) if isinstance(event, yaml.AliasEvent))
    used = {event.anchor: event.start_mark.line + 1 for event in aliases if event.start_mark is not None}
    found = next(((name, where) for name, where in reversed(anchors) if name in used), None)
    return None if found is None else f"{found[1]} is shared: line {used[found[0]]} has it as *{found[0]}"


def _splices(text: str, root: _Node, path: Path, value: Plain) -> Iterator[Splice]:
    node = root
    for depth in range(len(path)):
        where = dotted(path[:depth])
        if node.kind == "alias":
            raise CannotEdit(f"{where} is *{node.text}: what it holds stands elsewhere, and others have it as well")
        if node.kind == "scalar" and not node.text:
            yield _below_nothing(text, node, path[depth:], value)
            return
        if node.kind != "mapping":
            raise CannotEdit(f"{where} holds no keys")
        inner = _value_of(node, path[: depth + 1])
        if inner is None:
            if depth < len(path) - 1 and any(name.text == "<<" for name, _ in node.pairs):
                raise CannotEdit(
                    f"{dotted(path[: depth + 1])} is merged in by <<: a key of its own would hide the rest"
                )
            yield _beside(text, node, path[depth:], value)
            return
        node = inner
    yield from _replaced(text, node, path, value)


def _value_of(node: _Node, path: Path) -> _Node | None:
    """Of the last of these keys, in the mapping that it belongs to."""
    found = [inner for name, inner in node.pairs if name.kind == "scalar" and name.text == path[-1]]
    if len(found) > 1:
        raise CannotEdit(f"the key {dotted(path)} stands there twice")
    return found[0] if found else None


def _replaced(text: str, node: _Node, path: Path, value: Plain) -> Iterator[Splice]:
    name = dotted(path)
    if node.kind == "alias":
        raise CannotEdit(f"{name} is *{node.text}: its value stands elsewhere")
    if INTERPOLATION.search(text[node.start : node.end]):
        raise CannotEdit(f"{name} is {text[node.start : node.end]}: its value comes from elsewhere")
    if node.kind == "mapping":
        raise CannotEdit(f"{name} holds keys of its own")
    if node.kind == "sequence":
        yield from _list_items(text, node, name, value)
    elif node.style in ("|", ">") or node.line != node.last_line:
        raise CannotEdit(f"{name} stands on several lines")
    elif node.start == node.end:
        yield node.start, node.start, f" {_scalar(value)}"
    else:
        old = text[node.start : node.end]
        properties = _PROPERTIES.match(old)
        begins = node.start + (properties.end() if properties else 0)
        yield begins, node.end, _in_the_manner_of(node, value)


def _list_items(text: str, node: _Node, name: str, value: Plain) -> Iterator[Splice]:
    texts = [text[one.start : one.end] for one in node.items]
    if any(one.kind == "alias" or one.anchor is not None for one in node.items) or INTERPOLATION.search("".join(texts)):
        raise CannotEdit(f"{name} has values that stand elsewhere")
    if isinstance(value, list) and len(value) == len(node.items):
        if any(one.kind != "scalar" or one.line != one.last_line for one in node.items):
            raise CannotEdit(f"{name} holds more than numbers")
        for one, old, new in zip(node.items, texts, value, strict=True):
            found: Any = yaml.safe_load(old)
            if type(found) is not type(new) or found != new:
                yield one.start, one.end, _in_the_manner_of(one, new)
        return
    if not node.flow or node.anchor is not None:
        raise CannotEdit(f"{name} is a list of {len(node.items)}")
    yield node.start, node.end, _scalar(value)


def _in_the_manner_of(node: _Node, value: Plain) -> str:
    """With the quotes and the word for true that stood there."""
    pair = _BY_WORD.get(node.text.lower()) if node.style is None else None
    if isinstance(value, bool) and pair is not None:
        word = pair[value]
        return word.upper() if node.text.isupper() else word.title() if node.text[:1].isupper() else word
    if isinstance(value, str) and node.style == "'":
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, str) and node.style == '"':
        return json.dumps(value, ensure_ascii=False)
    return _scalar(value)


def _scalar(value: Plain) -> str:
    written: str = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=2**31)
    return written.removesuffix("\n").removesuffix("\n...")


def _beside(text: str, parent: _Node, keys: Path, value: Plain) -> Splice:
    """A new key after the last of its siblings that is one line, so that no comment and no nested part is parted."""
    if parent.flow:
        written = _in_flow(keys, value)
        if not parent.pairs:
            return parent.start, parent.end, "{" + written + "}"
        end = parent.pairs[-1][1].end
        return end, end, f", {written}"
    plain = [(key, inner) for key, inner in parent.pairs if inner.line == inner.last_line == key.line and _whole(inner)]
    indent = " " * parent.pairs[0][0].column
    lines = _lines(keys, value, indent, text)
    if plain:
        return _after_line(text, plain[-1][1].end, lines)
    first = parent.pairs[0][0]
    begins = first.start - first.column
    if text[begins : first.start].strip():
        raise CannotEdit(f"there is no line to put {keys[0]} after")
    begins = _with_comments_above(text, begins)
    return begins, begins, lines + line_end_of(text)


def _with_comments_above(text: str, begins: int) -> int:
    """Where the comment begins that is right above a key; that on top of the file is the file's."""
    at = begins
    while at > 0:
        above = text.rfind("\n", 0, at - 1) + 1
        if not text[above:at].lstrip().startswith("#"):
            return at
        at = above
    return begins


def _below_nothing(text: str, node: _Node, keys: Path, value: Plain) -> Splice:
    """A key that has no value yet becomes one with keys."""
    begins = text.rfind("\n", 0, node.start) + 1
    line = text[begins : node.start]
    own = len(line) - len(line.lstrip(" "))
    return _after_line(text, node.end, _lines(keys, value, " " * (own + _indent_of(text)), text))


def _after_line(text: str, at: int, lines: str) -> Splice:
    end = text.find("\n", at)
    if end < 0:
        return len(text), len(text), line_end_of(text) + lines
    return end + 1, end + 1, lines + line_end_of(text)


def _lines(keys: Path, value: Plain, indent: str, text: str) -> str:
    step, written = " " * _indent_of(text), []
    for depth, key in enumerate(keys):
        ends = f" {_scalar(value)}" if depth == len(keys) - 1 else ""
        written.append(f"{indent}{step * depth}{_scalar(key)}:{ends}")
    return line_end_of(text).join(written)


def _in_flow(keys: Path, value: Plain) -> str:
    written = _scalar(value)
    for key in reversed(keys[1:]):
        written = "{" + f"{_scalar(key)}: {written}" + "}"
    return f"{_scalar(keys[0])}: {written}"


def _indent_of(text: str) -> int:
    found = re.search(r"^( +)[^\s#-]", text, re.MULTILINE)
    return len(found[1]) if found else _USUAL_INDENT


def _whole(node: _Node) -> bool:
    return node.style not in ("|", ">") and (node.kind in ("scalar", "alias") or node.flow)


def _tree(text: str) -> _Node | None:
    """Of the first document; an alias is a node of its own, which the composer of PyYAML does not tell."""
    events = iter(yaml.parse(text, Loader=yaml.SafeLoader))
    for event in events:
        if isinstance(event, yaml.NodeEvent):
            return _node(event, events)
    return None


def _node(event: Any, events: Iterator[Any]) -> _Node:
    start, end = event.start_mark, event.end_mark
    node = _Node("scalar", start.index, end.index, start.line, start.column, end.line, anchor=event.anchor)
    match event:
        case yaml.AliasEvent():
            node.kind, node.text, node.anchor = "alias", str(event.anchor), None
            return node
        case yaml.ScalarEvent():
            node.text, node.style = event.value, event.style
            return node
    node.flow = bool(event.flow_style)
    node.kind = "mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence"
    while not isinstance(inner := next(events), yaml.CollectionEndEvent):
        one = _node(inner, events)
        if node.kind == "mapping":
            node.pairs.append((one, _node(next(events), events)))
        else:
            node.items.append(one)
    node.end, node.last_line = _end_of(inner)
    return node


def _end_of(event: Any) -> tuple[int, int]:
    return event.end_mark.index, event.end_mark.line
