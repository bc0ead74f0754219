"""A file as data that still knows where each part stands in it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from vtune.config.problems import Problem
from vtune.config.trial_config import SECTION

# Configs are written by people; a volume or a checkpoint named by mistake must not be read into memory.
LARGEST_BYTES = 16 * 1024 * 1024
_MERGE = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    path: Path
    data: Mapping[Any, Any]
    # None for JSON and TOML, whose parsers keep no positions.
    root: yaml.Node | None

    def where(self, keys: Sequence[str | int] = (), *, at_key: bool = False) -> str:
        """`file:line:column` of the value at these keys, or of the last key itself; as near as can be found."""
        if self.root is None:
            return str(self.path)
        node, mark = self.root, self.root.start_mark
        for depth, key in enumerate(keys):
            step = _child(node, key)
            if step is None:
                break
            key_node, node = step
            wants_key = at_key and depth == len(keys) - 1
            mark = key_node.start_mark if wants_key else node.start_mark
        return f"{self.path}:{mark.line + 1}:{mark.column + 1}"


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
        if path.is_dir():
            problems.append(Problem(where=str(path), message="is a directory, not a config file"))
            return None
        with path.open("rb") as file:
            raw = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        problems.append(Problem(where=str(path), message=f"cannot be read: {error.strerror}"))
        return None
    if len(raw) > LARGEST_BYTES:
        problems.append(Problem(where=str(path), message="is larger than 16 MiB, so it is no config file"))
        return None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.append(
            Problem(
                where=_position(path, raw[: error.start].decode("utf-8-sig", "replace")),
                message=f"not a text file in UTF-8 (byte 0x{raw[error.start]:02x})",
            )
        )
        return None
    if not text.strip():
        problems.append(Problem(where=f"{path}:1:1", message="the file is empty"))
        return None
    return text


class _Loader(yaml.SafeLoader):
    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, ArithmeticError, AttributeError, LookupError, TypeError) as error:
            # PyYAML lets these through without a position: 2026-13-45 as a date, !!int on a word.
            raise yaml.constructor.ConstructorError(None, None, f"bad value: {error}", node.start_mark) from error


def _parse_yaml(path: Path, text: str, problems: list[Problem]) -> Document | None:
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
            if root is not None:
                if _contains_itself(root):
                    problems.append(Problem(where=f"{path}:1:1", message="an anchor refers to itself"))
                    return None
                # Before the construction, which folds merge keys into the nodes.
                problems += _duplicate_keys(path, root)
            data = None if root is None else loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        problems.append(_yaml_problem(path, text, error))
        return None
    except yaml.reader.ReaderError as error:
        position = error.position if isinstance(error.position, int) else 0
        problems.append(
            Problem(
                where=_position(path, text[:position]),
                message=f"not YAML: the character {text[position : position + 1]!a} is not allowed",
            )
        )
        return None
    except RecursionError:
        problems.append(Problem(where=f"{path}:1:1", message="not usable as a config: nested too deeply"))
        return None
    if data is None:
        problems.append(Problem(where=f"{path}:1:1", message="the file is empty"))
        return None
    if not isinstance(data, dict):
        what = "a list" if isinstance(data, list) else f"just {str(data)[:60]!r}"
        problems.append(Problem(where=f"{path}:1:1", message=f"a config is lines of `key: value`, this file is {what}"))
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
    hint = "put the command in quotes: to YAML a { begins a mapping" if bare else None
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
        data = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        problems.append(Problem(where=f"{path}:{error.lineno}:{error.colno}", message=f"not JSON: {error.msg}"))
        return None
    except RecursionError:
        problems.append(Problem(where=str(path), message="not usable as a config: nested too deeply"))
        return None
    problems += [Problem(where=str(path), message=f'duplicate key "{key}"') for key in twice]
    return _mapping(path, data, problems)


def _parse_toml(path: Path, text: str, problems: list[Problem]) -> Document | None:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"\s*\(at line (\d+), column (\d+)\)$", str(error))
        where = str(path) if at is None else f"{path}:{at[1]}:{at[2]}"
        said = str(error) if at is None else str(error)[: at.start()]
        problems.append(Problem(where=where, message=f"not TOML: {said}"))
        return None
    except RecursionError:
        problems.append(Problem(where=str(path), message="not usable as a config: nested too deeply"))
        return None
    return _mapping(path, data, problems)


def _mapping(path: Path, data: object, problems: list[Problem]) -> Document | None:
    if isinstance(data, dict):
        return Document(path=path, data=data, root=None)
    problems.append(Problem(where=str(path), message="a config must hold keys and values at its top level"))
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
        waiting.extend(reversed(_children(node)))


def _contains_itself(root: yaml.Node) -> bool:
    finished: set[int] = set()
    above: set[int] = set()

    def visit(node: yaml.Node) -> bool:
        if id(node) in above:
            return True
        if id(node) in finished:
            return False
        above.add(id(node))
        found = any(visit(child) for child in _children(node))
        above.discard(id(node))
        finished.add(id(node))
        return found

    return visit(root)


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _child(node: yaml.Node, key: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    if isinstance(node, yaml.SequenceNode):
        if isinstance(key, int) and 0 <= key < len(node.value):
            return node.value[key], node.value[key]
        return None
    if isinstance(node, yaml.MappingNode):
        # The last one wins, as in PyYAML; merged keys come first once the document is constructed.
        for key_node, value in reversed(node.value):
            if isinstance(key_node, yaml.ScalarNode) and key_node.value == str(key):
                return key_node, value
    return None


def _position(path: Path, before: str) -> str:
    lines = before.split("\n")
    return f"{path}:{len(lines)}:{len(lines[-1]) + 1}"
