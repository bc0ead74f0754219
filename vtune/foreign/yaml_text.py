"""YAML that somebody else may have written: bounded before anything is built from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from vtune.foreign.bounds import DEEPEST, IN_REASON, MOST_DIGITS, BadText, check_integer, check_text, too_deep

# PyYAML reads some 200 KB of dense text a second.
MOST_BYTES = 2 * 1024 * 1024
# Of the text as it stands, and once more with each alias and merge in its place: 600 bytes of nested merges are 10**9.
MOST_NODES = 50_000
_NUMBERS = frozenset(("tag:yaml.org,2002:int", "tag:yaml.org,2002:float"))
# `1:1:1…` is a number to base 60, whose reading takes the square of its length.
_LONGEST_NUMBER = 400
# The C library takes its own stack for each level, without a bound; indentation alone nests to the root of its bytes.
_OPENERS = ("[", "{", "- ", "? ")
_MOST_OPENERS = 5000


class BoundedLoader(yaml.SafeLoader):
    """As SafeLoader, but raises BadText for what would take too long or too much memory."""

    def __init__(self, text: str) -> None:
        if len(text) > MOST_BYTES:
            raise BadText(f"is larger than {MOST_BYTES // 1024**2} MiB", hint=IN_REASON)
        super().__init__(text)
        self._depth = self._nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        self._nodes += 1
        if self._depth > DEEPEST:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise too_deep(mark.line + 1, mark.column + 1)
        if self._nodes > MOST_NODES:
            raise _too_many()
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def get_single_node(self) -> Any:
        root = super().get_single_node()
        if root is not None:
            check_nodes(root)
        return root

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep=deep)
        except (ValueError, ArithmeticError, AttributeError, LookupError, TypeError) as error:
            if isinstance(error, BadText):
                raise
            # PyYAML lets these through without a position: 2026-13-45 as a date, !!int on a word.
            raise yaml.constructor.ConstructorError(None, None, f"bad value: {error}", node.start_mark) from error
        if isinstance(value, int):
            check_integer(value, node.start_mark.line + 1, node.start_mark.column + 1)
        return value


def load_yaml(text: str) -> Any:
    """Raises BadText and yaml.YAMLError."""
    try:
        return yaml.load(text, Loader=BoundedLoader)
    except RecursionError:
        raise too_deep() from None


def load_yaml_quickly(text: str) -> Any:
    """The same by the C library where PyYAML has it, ten times as fast: for thousands of copies."""
    quick = getattr(yaml, "CSafeLoader", None)
    if quick is None or len(text) > MOST_BYTES or sum(map(text.count, _OPENERS)) > _MOST_OPENERS:
        return load_yaml(text)
    loader = quick(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        check_nodes(root)
        return loader.construct_document(root)
    except RecursionError:
        raise too_deep() from None
    finally:
        loader.dispose()


@dataclass(slots=True)
class _Extent:
    nodes: int = 1
    depth: int = 1


def check_nodes(root: yaml.Node) -> None:
    """Raises BadText where the tree, with every alias in its place, is too large, too deep, or holds itself."""
    finished: dict[int, _Extent] = {}
    above: set[int] = set()
    waiting: list[tuple[yaml.Node, bool]] = [(root, False)]
    while waiting:
        node, is_left = waiting.pop()
        if is_left:
            above.discard(id(node))
            finished[id(node)] = _extent(node, finished)
        elif id(node) in above:
            raise _at(node, "an anchor refers to itself", "write the value out where its own alias stands")
        elif id(node) not in finished:
            above.add(id(node))
            waiting.append((node, True))
            waiting.extend((child, False) for child in children(node) if id(child) not in finished)


def children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _extent(node: yaml.Node, finished: dict[int, _Extent]) -> _Extent:
    if isinstance(node, yaml.ScalarNode):
        line, column = node.start_mark.line + 1, node.start_mark.column + 1
        check_text(node.value, line, column)
        if node.tag in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
            raise _at(node, f"a number of more than {MOST_DIGITS} digits", "put it in quotes if it is text")
        return _Extent()
    found = _Extent()
    for inner in _extents(node, finished):
        found.nodes += inner.nodes
        found.depth = max(found.depth, inner.depth + 1)
    if found.nodes > MOST_NODES:
        raise _too_many()
    if found.depth > DEEPEST:
        raise too_deep()
    return found


def _extents(node: yaml.Node, finished: dict[int, _Extent]) -> Iterator[_Extent]:
    return (finished[id(child)] for child in children(node))


def _too_many() -> BadText:
    return BadText(
        f"more than {MOST_NODES} values, with each alias in its place", hint="name fewer values, or fewer aliases"
    )


def _at(node: yaml.Node, message: str, hint: str) -> BadText:
    return BadText(message, hint=hint, line=node.start_mark.line + 1, column=node.start_mark.column + 1)
