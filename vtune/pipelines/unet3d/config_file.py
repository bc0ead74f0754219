"""Reads a config file strictly: a wrong key or value is an error that names it, never a default.

Standard library and PyYAML only: a config can be checked without loading PyTorch.
"""

import difflib
import math
import types
from collections.abc import Mapping
from dataclasses import field, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

TOP_KEYS = ("output_dir",)

T = TypeVar("T")
Sections: TypeAlias = Mapping[str, type[Any]]


class SettingsError(Exception):
    """Everything that is wrong with a config file, one line a problem: `file: key: what`."""

    def __init__(self, path: Path, problems: list[str]) -> None:
        super().__init__("\n".join(f"{path}: {problem}" for problem in problems))


def within(default: T, *, low: float, high: float = math.inf) -> T:
    """A key's default and the range that its value, or each of its values, has to be in."""
    made: T = field(default=default, metadata={"low": low, "high": high})
    return made


def load_yaml(path: Path) -> Mapping[Any, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(path, [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise SettingsError(path, [f"is not UTF-8 text: {error.reason} at byte {error.start}"]) from error
    try:
        document = yaml.load(text, Loader=_UniqueKeyLoader)
    except yaml.YAMLError as error:
        raise SettingsError(path, [" ".join(f"is not valid YAML: {error}".split())]) from error
    if not isinstance(document, Mapping):
        raise SettingsError(path, [f"expected sections such as `training:`, {got(document)}"])
    return document


class _UniqueKeyLoader(yaml.SafeLoader):
    """PyYAML lets the last of two equal keys win without a word; here that is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag != "tag:yaml.org,2002:merge":
                if key_node.value in seen:
                    raise yaml.YAMLError(f'key "{key_node.value}" twice, line {key_node.start_mark.line + 1}')
                seen.add(key_node.value)
        return dict(super().construct_mapping(node, deep=deep))


def read_section(name: str, kind: type[Any], found: Any, problems: list[str], sections: Sections) -> Any:
    if found is None:
        found = {}
    if not isinstance(found, Mapping):
        problems.append(f"{name}: expected a section with keys, {got(found)}")
        return None
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for key, value in found.items():
        if key not in hints:
            problems.append(unknown_key(str(key), name, sections))
            continue
        try:
            values[key] = _convert(value, hints[key])
        except ValueError as error:
            problems.append(f"{name}.{key}: expected {error}, {got(value)}")
    for spec in fields(kind):
        if spec.name in values and spec.metadata:
            complaint = _out_of_range(values[spec.name], spec.metadata["low"], spec.metadata["high"])
            if complaint:
                problems.append(f"{name}.{spec.name}: {complaint}, {got(found[spec.name])}")
    return kind(**values)


def _convert(value: Any, kind: Any) -> Any:
    """The value as `kind`, or ValueError with the words for what was expected."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        inner = next(argument for argument in arguments if argument is not types.NoneType)
        try:
            return _convert(value, inner)
        except ValueError as error:
            raise ValueError(f"{error} or null") from None
    if origin is Literal:
        if value in arguments:
            return value
        raise ValueError(" or ".join(f'"{argument}"' for argument in arguments))
    if origin is tuple:
        words = f"a list of {len(arguments)} {'whole numbers' if arguments[0] is int else 'numbers'}"
        if not isinstance(value, list) or len(value) != len(arguments):
            raise ValueError(words)
        try:
            return tuple(_convert(item, inner) for item, inner in zip(value, arguments, strict=True))
        except ValueError:
            raise ValueError(words) from None
    if kind is bool:
        if isinstance(value, bool):
            return value
        raise ValueError("true or false")
    if kind is str:
        if isinstance(value, str) and value:
            return value
        raise ValueError("a text")
    # YAML's true is a Python int; no number is meant by it.
    if kind is int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise ValueError("a whole number")
    if kind is float:
        # YAML 1.1, which PyYAML speaks, reads 3e-4 (without a dot) as text.
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            try:
                number = float(value)
            except ValueError:
                number = math.nan
            if math.isfinite(number):
                return number
        raise ValueError("a number")
    raise TypeError(f"no rule to read a {kind}")


def _out_of_range(value: Any, low: float, high: float) -> str | None:
    for number in value if isinstance(value, tuple) else (value,):
        if number is not None and not low <= number <= high:
            return f"expected at least {low:g}" if high == math.inf else f"expected {low:g} to {high:g}"
    return None


def unknown_key(key: str, section: str | None, sections: Sections) -> str:
    """With the nearest spelling: here, or in the section in which it is known."""
    here = [*sections, *TOP_KEYS] if section is None else [spec.name for spec in fields(sections[section])]
    prefix = "" if section is None else f"{section}."
    elsewhere = {spec.name: f"{name}.{spec.name}" for name, kind in sections.items() for spec in fields(kind)}
    near = difflib.get_close_matches(key, here, n=1, cutoff=0.6)
    # The very name in another section is likelier than one that only looks like it in this one.
    if near and key not in elsewhere:
        return f'{prefix}{key}: unknown key, did you mean "{prefix}{near[0]}"?'
    near = difflib.get_close_matches(key, elsewhere, n=1, cutoff=0.6)
    if near:
        return f'{prefix}{key}: unknown key, did you mean "{elsewhere[near[0]]}"?'
    return f"{prefix}{key}: unknown key, known here: {', '.join(here)}"


def got(value: Any) -> str:
    if value is None:
        return "got nothing"
    return f'got "{value}"' if isinstance(value, str) else f"got {value}"
