"""A config with a few values changed and every other byte as it was; refused where that cannot be had for sure."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from vtune.config.edit_json import json_splices
from vtune.config.edit_problem import CannotEdit, Path, Plain, Splice, dotted
from vtune.config.edit_toml import toml_text
from vtune.config.edit_yaml import links_to, yaml_splices
from vtune.config.trial_config import dump_yaml
from vtune.domain.effects import ConfigValue

Changes = Mapping[tuple[str, ...], ConfigValue]


def edited(raw: bytes, suffix: str, changes: Changes) -> bytes:
    """Raises CannotEdit, with why, where the text cannot be changed without breaking something of it."""
    text = _decoded(raw)
    plain = {path: list(value) if isinstance(value, tuple) else value for path, value in changes.items()}
    before = parsed(text, suffix)
    wanted: Any = before
    for path, value in plain.items():
        wanted = with_value(wanted, path, value)
    match suffix.lower():
        case ".toml":
            found = toml_text(text, plain)
        case ".json":
            found = _spliced(text, json_splices(text, plain))
        case _:
            found = _spliced(text, yaml_splices(text, plain))
    if not _same(parsed(found, suffix), wanted):
        # The last word: whatever a splice did not foresee shows here.
        links = [link for path in plain if suffix.lower() not in (".json", ".toml") and (link := links_to(text, path))]
        raise CannotEdit(links[0] if links else f"{_listed(plain)} cannot be changed without changing something else")
    return found.encode()


def rewritten(raw: bytes, suffix: str, changes: Changes) -> str | None:
    """The same values as a text of vtune's own, for a file beside: comments are lost. None where even that would read
    back otherwise."""
    wanted: Any = parsed(_decoded(raw), suffix)
    for path, value in changes.items():
        wanted = with_value(wanted, path, list(value) if isinstance(value, tuple) else value)
    match suffix.lower():
        case ".json":
            return json.dumps(wanted, indent=2, ensure_ascii=False) + "\n"
        case ".toml":
            return None
        case _:
            return dump_yaml(wanted)


def parsed(text: str, suffix: str) -> Any:
    try:
        match suffix.lower():
            case ".json":
                return json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_each_once)
            case ".toml":
                return tomllib.loads(text.removeprefix("\ufeff"))
            case _:
                return yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise CannotEdit(f"it cannot be read: {str(error).splitlines()[0]}") from error


def with_value(config: Any, path: Path, value: Plain) -> dict[str, Any]:
    """New along the path only: what shares a part with it by an anchor keeps what it has."""
    if config is not None and not isinstance(config, Mapping):
        raise CannotEdit(f"{path[0]} would be a key of something that holds no keys")
    key, rest = path[0], path[1:]
    inner = (config or {}).get(key)
    return {**(config or {}), key: with_value(inner, rest, value) if rest else value}


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CannotEdit(f"it is not a text in UTF-8 (byte 0x{raw[error.start]:02x})") from error


def _spliced(text: str, splices: Sequence[Splice]) -> str:
    parts, at = [], 0
    # Of several at one place the first comes first.
    for start, end, new in sorted(splices, key=lambda one: one[:2]):
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])


def _same(one: object, other: object) -> bool:
    """In value and type; keys may stand in another order, for new ones are put beside their siblings."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        typed = ({(type(key), key) for key in keys} for keys in (one, other))
        return len({frozenset(keys) for keys in typed}) == 1 and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other or (one != one and other != other)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f'the key "{key}" stands there twice')
        found[key] = value
    return found


def _listed(plain: Mapping[Path, Plain]) -> str:
    return ", ".join(map(dotted, plain))
