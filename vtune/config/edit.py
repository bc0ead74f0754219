"""A config with a few values changed and every other byte as it was; refused where that cannot be had for sure."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from vtune.config.edit_json import json_splices
from vtune.config.edit_problem import CannotEdit, Path, Plain, Splice, dotted
from vtune.config.edit_toml import toml_splices
from vtune.config.edit_yaml import check_once, links_to, yaml_splices
from vtune.config.rewrite_toml import rewritten_toml
from vtune.config.trial_config import dump_yaml, same_values
from vtune.domain.effects import ConfigValue
from vtune.foreign.json_text import parse_json
from vtune.foreign.toml_text import parse_toml
from vtune.foreign.yaml_text import load_yaml

Changes = Mapping[tuple[str, ...], ConfigValue]
# Whatever is neither is YAML, as everywhere.
_SPLICES = {".json": json_splices, ".toml": toml_splices}
# To the formats a no-break space is a letter as any other.
_BLANK = " \t\r\n"


def edited(raw: bytes, suffix: str, changes: Changes) -> bytes:
    """Raises CannotEdit, with why, where the text cannot be changed without breaking something of it."""
    text = _decoded(raw)
    config = parsed(text, suffix)
    for path, value in changes.items():
        new = list(value) if isinstance(value, tuple) else value
        if suffix.lower() not in _SPLICES:
            check_once(text, path)
        # Said in other words, as 0x10 or yes, it is not said anew.
        if not _has(config, path, new):
            text, config = _with_value(text, suffix.lower(), config, path, new)
    return text.encode()


def _with_value(text: str, suffix: str, config: Any, path: Path, value: Plain) -> tuple[str, Any]:
    try:
        splices = _SPLICES.get(suffix, yaml_splices)(text, path, value)
    except RecursionError as error:
        raise CannotEdit("its parts are too deep in each other") from error
    wanted = with_value(config, path, value)
    found = _spliced(text, splices, dotted(path), comments=suffix != ".json")
    # The last word: whatever a splice did not foresee shows here.
    with contextlib.suppress(CannotEdit):
        read = parsed(found, suffix)
        if _same(read, wanted):
            return found, read
    link = links_to(text, path) if suffix not in _SPLICES else None
    raise CannotEdit(link or f"{dotted(path)} cannot be changed without changing something else")


def rewritten(raw: bytes, suffix: str, changes: Changes) -> str | None:
    """The same values as a text of vtune's own, for a file beside: comments are lost. None where even that would read
    back otherwise."""
    text = _decoded(raw)
    wanted: Any = parsed(text, suffix)
    plain = {path: list(value) if isinstance(value, tuple) else value for path, value in changes.items()}
    for path, value in plain.items():
        wanted = with_value(wanted, path, value)
    match suffix.lower():
        case ".json":
            return json.dumps(wanted, indent=2, ensure_ascii=False) + "\n"
        case ".toml":
            found = rewritten_toml(text, plain)
            return found if _same(parsed(found, suffix), wanted) else None
        case _:
            return dump_yaml(wanted)


def parsed(text: str, suffix: str) -> Any:
    try:
        match suffix.lower():
            case ".json":
                return parse_json(text.removeprefix("\ufeff"), object_pairs_hook=_each_once)
            case ".toml":
                return parse_toml(text.removeprefix("\ufeff"))
            case _:
                return load_yaml(text)
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark is not None else ""
        raise CannotEdit(f"it cannot be read: {where}{error.problem or error.context}") from error
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise CannotEdit(f"it cannot be read: {str(error).splitlines()[0]}") from error


def with_value(config: Any, path: Path, value: Plain) -> dict[str, Any]:
    """New along the path only: what shares a part with it by an anchor keeps what it has."""
    if config is not None and not isinstance(config, Mapping):
        raise CannotEdit(f"{path[0]} would be a key of something that holds no keys")
    key, rest = path[0], path[1:]
    inner = (config or {}).get(key)
    return {**(config or {}), key: with_value(inner, rest, value) if rest else value}


def _has(config: Any, path: Path, value: Plain) -> bool:
    for key in path:
        if not isinstance(config, Mapping) or key not in config:
            return False
        config = config[key]
    return _same(config, value)


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CannotEdit(f"it is not a text in UTF-8 (byte 0x{raw[error.start]:02x})") from error


def _spliced(text: str, splices: Sequence[Splice], name: str, *, comments: bool) -> str:
    """All that is outside of the splices stays; here is seen to it that nothing but a value, or room for a new key,
    is inside of them."""
    parts, at = [], 0
    for start, end, new in sorted(splices):
        gone = text[start:end]
        if start < at or gone != gone.strip(_BLANK):
            raise CannotEdit(f"{name} cannot be changed without changing something else")
        # On one line no comment can be within a value.
        if comments and "#" in gone and "\n" in gone:
            raise CannotEdit(f"{name} has a comment within")
        if "\r" in text and "\n" in new and "\n" not in text:
            raise CannotEdit("its line ends are carriage returns")
        parts += [text[at:start], new]
        at = end
    found = "".join([*parts, text[at:]])
    if found.endswith("\n") != text.endswith("\n"):
        raise CannotEdit(f"{name} cannot be put there without another last line end")
    return found


def _same(one: object, other: object) -> bool:
    """Keys may stand in another order, for new ones are put beside their siblings."""
    return same_values(one, other, in_order=False)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f'the key "{key}" stands there twice')
        found[key] = value
    return found
