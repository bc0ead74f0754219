"""A trial's copy of the training's config: the same values but for the changes, and no `vtune:` section."""

from __future__ import annotations

import contextlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from vtune.config.edit_problem import CannotEdit, Plain
from vtune.config.rewrite_toml import rewritten_toml
from vtune.domain.effects import ConfigValue
from vtune.domain.experiment import Workload
from vtune.errors import UsageError
from vtune.files import write_atomically
from vtune.foreign.bounds import BadText
from vtune.foreign.read import read_text
from vtune.foreign.yaml_text import BoundedLoader, load_yaml

SECTION = "vtune"
Changes = Mapping[tuple[str, ...], ConfigValue]


def write_trial_config(workload: Workload, changes: Changes, target: Path) -> None:
    """Refuses to write what would not read back as meant."""
    if workload.config is None:
        raise UsageError("the training has no config to be copied", hint="name it in vtune.config")
    source = workload.config_path
    suffix = "" if source is None else source.suffix.lower()
    wanted: Mapping[str, Any] = workload.config
    plain = {path: list(value) if isinstance(value, tuple) else value for path, value in changes.items()}
    for path, value in plain.items():
        wanted = _with_value(wanted, path, value)
    text: str | None
    if suffix == ".toml":
        text = _toml(source, plain, wanted)
    elif suffix == ".json":
        dumped = json.dumps(wanted, indent=2, ensure_ascii=False) + "\n"
        text = dumped if same_values(json.loads(dumped), wanted) else None
    else:
        text = _spliced(source, wanted, plain) or dump_yaml(wanted)
    if text is None:
        raise UsageError(
            f"the config {source} cannot be copied: it would read back with other values",
            hint="this is a defect of vtune; please report it with the config",
        )
    write_atomically(target, text)


def dump_yaml(data: Mapping[str, Any]) -> str | None:
    """Text that reads back as `data`, or None."""
    # PyYAML writes a few characters (U+0085) in a way that it reads as others; escaped they are safe.
    for as_they_are in (True, False):
        # A width without end: folded lines read back the same, but nobody finds them again.
        text: str = yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=as_they_are, width=2**31)
        with contextlib.suppress(yaml.YAMLError, BadText):
            if same_values(load_yaml(text), dict(data)):
                return text
    return None


def same_values(one: object, other: object, *, in_order: bool = True) -> bool:
    """Equal in value and type, and in the order of keys; NaN equals itself. Shared parts are compared once."""
    compared: set[tuple[int, int]] = set()

    def same(a: object, b: object) -> bool:
        if type(a) is not type(b):
            return False
        if isinstance(a, dict | list):
            if (id(a), id(b)) in compared:
                return True
            compared.add((id(a), id(b)))
        if isinstance(a, dict) and isinstance(b, dict):
            keys = [[_typed(key) for key in part] for part in (a, b)]
            same_keys = keys[0] == keys[1] if in_order else set(keys[0]) == set(keys[1])
            return same_keys and all(same(a[key], b[key]) for key in a)
        if isinstance(a, list) and isinstance(b, list):
            return len(a) == len(b) and all(map(same, a, b))
        return a == b or (a != a and b != b)

    return same(one, other)


def _typed(key: object) -> tuple[type, object]:
    return type(key), key


def _with_value(config: Mapping[str, Any], path: tuple[str, ...], value: Plain) -> dict[str, Any]:
    """A new mapping along the path only: anchors share mappings between sections, and others must not change."""
    key, rest = path[0], path[1:]
    if not rest:
        return {**config, key: value}
    inner = config.get(key)
    return {**config, key: _with_value(inner if isinstance(inner, Mapping) else {}, rest, value)}


def _spliced(source: Path | None, wanted: Mapping[str, Any], changes: Mapping[tuple[str, ...], Plain]) -> str | None:
    """The file's own text with the section cut out and the changed values replaced: a training whose reader is not
    PyYAML (YAML 1.2, interpolations) then reads all the rest as before. None when that does not give what is wanted."""
    try:
        text = read_text(source) if source is not None else ""
        root = yaml.compose(text, Loader=BoundedLoader)
        if not isinstance(root, yaml.MappingNode) or root.flow_style:
            return None
        pieces = [_value_piece(root, path, value) for path, value in changes.items()]
        pieces += _section_pieces(root, text)
        if None in pieces:
            return None
        for start, end, new in sorted((piece for piece in pieces if piece is not None), reverse=True):
            text = text[:start] + new + text[end:]
        return text if same_values(load_yaml(text), dict(wanted)) else None
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return None


def _value_piece(root: yaml.MappingNode, path: tuple[str, ...], value: Plain) -> tuple[int, int, str] | None:
    node: yaml.Node = root
    for key in path:
        if not isinstance(node, yaml.MappingNode):
            return None
        found = [part for name, part in node.value if name.value == key]
        if len(found) != 1:
            return None
        node = found[0]
    # An empty value has no place of its own, and one of several lines no end that a splice could trust.
    in_place = isinstance(node, yaml.ScalarNode) or (isinstance(node, yaml.SequenceNode) and bool(node.flow_style))
    if not in_place or node.end_mark.line != node.start_mark.line or not node.value:
        return None
    written: str = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=2**31)
    return node.start_mark.index, node.end_mark.index, written.removesuffix("\n").removesuffix("\n...")


def _section_pieces(root: yaml.MappingNode, text: str) -> list[tuple[int, int, str] | None]:
    """From the section's line to the line of the next key that is the training's."""
    pieces: list[tuple[int, int, str] | None] = []
    for position, (key, _) in enumerate(root.value):
        if key.value != SECTION:
            continue
        start = key.start_mark.index - key.start_mark.column
        if position + 1 < len(root.value):
            following = root.value[position + 1][0].start_mark
            pieces.append((start, following.index - following.column, ""))
        else:
            pieces.append((start, len(text), ""))
    return pieces


def _toml(source: Path | None, changes: Mapping[tuple[str, ...], Plain], wanted: Mapping[str, Any]) -> str | None:
    try:
        text = read_text(source) if source is not None else ""
        text = rewritten_toml(text, changes) if changes else text
        # A new key stands above the tables below its own, and TOML's keys have no order.
        return text if same_values(tomllib.loads(text), dict(wanted), in_order=False) else None
    except OSError as error:
        raise UsageError(f"{source} cannot be read: {error.strerror}", hint="let this account read it") from error
    except (CannotEdit, BadText) as error:
        raise UsageError(
            f"{source} cannot be changed: {error}", hint="set the value in the file itself, or keep it in YAML or JSON"
        ) from error
