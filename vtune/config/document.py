"""A file as data that still knows where each part stands in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from vtune.config.problems import Problem
from vtune.config.trial_config import SECTION
from vtune.foreign.bounds import BadText
from vtune.foreign.json_text import parse_json
from vtune.foreign.read import read_text
from vtune.foreign.toml_text import parse_toml
from vtune.foreign.yaml_text import BoundedLoader, children

_MERGE = "tag:yaml.org,2002:merge"
Step = tuple[yaml.Node, yaml.Node]
# As which YAML reads a key that stands there without quotes. Others are named as unknown keys.
_KEYS_OF_TEXT = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "merge"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    path: Path
    data: Mapping[Any, Any]
    # None for JSON and TOML, whose parsers keep no positions.
    root: yaml.Node | None
    # By the node's id: three thousand knobs are looked up one by one.
    _steps: dict[int, dict[str | int, Step]] = field(default_factory=dict, repr=False, compare=False)

    def where(self, keys: Sequence[str | int] = (), *, at_key: bool = False) -> str:
        """`file:line:column` of the value at these keys, or of the last key itself; as near as can be found."""
        if self.root is None:
            return str(self.path)
        node, mark = self.root, self.root.start_mark
        for depth, key in enumerate(keys):
            if id(node) not in self._steps:
                self._steps[id(node)] = _steps(node)
            step = self._steps[id(node)].get(key if isinstance(node, yaml.SequenceNode) else str(key))
            if step is None:
                break
            key_node, node = step
            wants_key = at_key and depth == len(keys) - 1
            mark = key_node.start_mark if wants_key else node.start_mark
        return f"{self.path}:{mark.line + 1}:{mark.column + 1}"

    def nul_problems(self) -> list[Problem]:
        """Texts of `vtune:` with a NUL, which no path, command or variable can hold."""
        return [
            Problem(
                where=f"{self.path}:{node.start_mark.line + 1}:{node.start_mark.column + 1}",
                message="a text with a NUL character",
                hint="take it out: it can be in no path, command or variable",
            )
            for node in self._section_nodes()
            if isinstance(node, yaml.ScalarNode) and "\0" in node.value
        ]

    def _section_nodes(self) -> Iterator[yaml.Node]:
        step = _steps(self.root).get(SECTION) if self.root is not None else None
        return _nodes(step[1]) if step is not None else iter(())

    def section(self, problems: list[Problem]) -> Any:
        """The value of `vtune:`, without keys that are no text to YAML: `on`, `yes`, `null`, `1.5`, a date."""
        for node in self._section_nodes():
            for key in (pair[0] for pair in node.value) if isinstance(node, yaml.MappingNode) else ():
                if key.tag not in _KEYS_OF_TEXT:
                    mark = key.start_mark
                    written = key.value if isinstance(key, yaml.ScalarNode) else "a list or mapping"
                    problems.append(
                        Problem(
                            where=f"{self.path}:{mark.line + 1}:{mark.column + 1}",
                            message=f"the key {written} is no text to YAML, but {key.tag.rpartition(':')[2]}",
                            hint=f'if it is meant as a name, put it in quotes: "{written}"',
                        )
                    )
        return _with_text_keys(self.data[SECTION])


def read_document(path: Path, problems: list[Problem]) -> Document | None:
    """A YAML mapping. What is wrong with the file is added to `problems`."""
    text = _read_text(path, problems)
    return None if text is None else _parse_yaml(path, text, problems)


def read_training_config(path: Path, problems: list[Problem]) -> Document | None:
    text = _read_text(path, problems)
    if text is None:
        return None
    match path.suffix.lower():
        case ".json":
            return _parse_json(path, text, problems)
        case ".toml":
            return _parse_toml(path, text, problems)
        case _:
            return _parse_yaml(path, text, problems)


def _read_text(path: Path, problems: list[Problem]) -> str | None:
    try:
        text = read_text(path)
    except BadText as error:
        problems.append(_problem(path, error))
        return None
    except OSError as error:
        hint = "let this account read it" if isinstance(error, PermissionError) else "name a file that can be read"
        problems.append(Problem(where=str(path), message=f"cannot be read: {error.strerror}", hint=hint))
        return None
    except ValueError as error:
        problems.append(Problem(where=str(path), message=f"cannot be read: {error}", hint="correct the name"))
        return None
    if not text.strip():
        problems.append(_empty(path))
        return None
    return text


def _empty(path: Path) -> Problem:
    return Problem(where=f"{path}:1:1", message="the file is empty", hint="write the config's keys and values into it")


def _problem(path: Path, error: BadText) -> Problem:
    where = str(path) if error.line is None else f"{path}:{error.line}:{error.column}"
    return Problem(where=where, message=error.message, hint=error.hint)


def _parse_yaml(path: Path, text: str, problems: list[Problem]) -> Document | None:
    try:
        loader = BoundedLoader(text)
        try:
            root = loader.get_single_node()
            if root is not None:
                # Before the construction, which folds merge keys into the nodes.
                problems += _duplicate_keys(path, root)
            data = None if root is None else loader.construct_document(root)
        finally:
            loader.dispose()
    except BadText as error:
        problems.append(_problem(path, error))
        return None
    except yaml.MarkedYAMLError as error:
        problems.append(_yaml_problem(path, text, error))
        return None
    except yaml.reader.ReaderError as error:
        position = error.position if isinstance(error.position, int) else 0
        problems.append(
            Problem(
                where=_position(path, text[:position]),
                message=f"not YAML: the character {text[position : position + 1]!a} is not allowed",
                hint="take it out, or write it escaped in double quotes",
            )
        )
        return None
    if data is None:
        problems.append(_empty(path))
        return None
    if not isinstance(data, dict):
        what = "a list" if isinstance(data, list) else f"just {str(data)[:60]!r}"
        problems.append(
            Problem(
                where=f"{path}:1:1",
                message=f"a config is lines of `key: value`, this file is {what}",
                hint="name the file that was meant, or write its values under keys",
            )
        )
        return None
    return Document(path=path, data=data, root=root)


def _yaml_problem(path: Path, text: str, error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    where = str(path) if mark is None else f"{path}:{mark.line + 1}:{mark.column + 1}"
    said = ", ".join(part for part in (error.context, error.problem) if part)
    if "could not determine a constructor for the tag" in said:
        tag = said.partition("the tag")[2].strip()
        return Problem(
            where=where,
            message=f"vtune cannot read the tag {tag}: it reads plain YAML only",
            hint="write an experiment file of its own with `vtune: {command: ...}` that runs the training as you do, "
            "without naming this config in vtune.config",
        )
    line = "" if mark is None else text[: mark.index].rpartition("\n")[2]
    bare = re.search(r":\s*\{(?:python|config)\}\s", line)
    hint = (
        "put the command in quotes: to YAML a { begins a mapping"
        if bare
        else "correct the line; a value with `: `, ` #`, or a bracket, brace, * or & in front needs quotes"
    )
    return Problem(where=where, message=f"not YAML: {said}", hint=hint)


def _parse_json(path: Path, text: str, problems: list[Problem]) -> Document | None:
    twice: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, value in pairs:
            if key in seen:
                twice.append(key)
            seen[key] = value
        return seen

    try:
        data = parse_json(text, object_pairs_hook=unique)
    except BadText as error:
        problems.append(_problem(path, error))
        return None
    problems += [
        Problem(where=str(path), message=f'duplicate key "{key}"', hint="keep one of the two: which counts is unclear")
        for key in twice
    ]
    return _mapping(path, data, problems)


def _parse_toml(path: Path, text: str, problems: list[Problem]) -> Document | None:
    try:
        data = parse_toml(text)
    except BadText as error:
        problems.append(_problem(path, error))
        return None
    return _mapping(path, data, problems)


def _mapping(path: Path, data: object, problems: list[Problem]) -> Document | None:
    if isinstance(data, dict):
        return Document(path=path, data=data, root=None)
    problems.append(
        Problem(
            where=str(path),
            message="a config must hold keys and values at its top level",
            hint="name the file that was meant, or write its values under keys",
        )
    )
    return None


def _duplicate_keys(path: Path, root: yaml.Node) -> list[Problem]:
    found: list[Problem] = []
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    vtunes = {id(node) for key, value in pairs if key.value == SECTION for node in _nodes(value)}
    for node in _nodes(root):
        if not isinstance(node, yaml.MappingNode):
            continue
        first: dict[tuple[str, str], yaml.Node] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            name = (key.tag, key.value)
            if name in first:
                mark = key.start_mark
                found.append(
                    Problem(
                        where=f"{path}:{mark.line + 1}:{mark.column + 1}",
                        message=f'duplicate key "{key.value}", first in line {first[name].start_mark.line + 1}',
                        hint="keep one of the two: which of them counts depends on the reader",
                        twice=id(node) not in vtunes and not (node is root and key.value == SECTION),
                    )
                )
            first.setdefault(name, key)
    return found


def _nodes(root: yaml.Node) -> Iterator[yaml.Node]:
    """Each node once, however many aliases lead to it, in the file's order."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        waiting.extend(reversed(children(node)))


def _steps(node: yaml.Node) -> dict[str | int, Step]:
    """(key's node, value's node) by key, or by position in a list."""
    if isinstance(node, yaml.SequenceNode):
        return {position: (item, item) for position, item in enumerate(node.value)}
    if isinstance(node, yaml.MappingNode):
        # The last one wins, as in PyYAML; merged keys come first once the document is constructed.
        return {key.value: (key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)}
    return {}


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _with_text_keys(inner)
            for key, inner in value.items()
            if isinstance(key, str | int) and not isinstance(key, bool)
        }
    return [_with_text_keys(inner) for inner in value] if isinstance(value, list) else value


def _position(path: Path, before: str) -> str:
    lines = before.split("\n")
    return f"{path}:{len(lines)}:{len(lines[-1]) + 1}"
