"""A TOML text with other values, by tomlkit: for a copy, where a comment or a line end less does no harm."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from vtune.config.edit_problem import CannotEdit, Path, Plain, dotted


def rewritten_toml(text: str, changes: Mapping[Path, Plain]) -> str:
    # Only here: most configs are none.
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    mark = "\ufeff" if text.startswith("\ufeff") else ""
    try:
        document = tomlkit.parse(text.removeprefix(mark))
        if tomlkit.dumps(document) != text.removeprefix(mark):
            raise CannotEdit("it is written in a way that could not be kept")
        for path, value in changes.items():
            if value is None:
                raise CannotEdit(f"TOML has no null for {dotted(path)}")
            table = _table(document, path)
            table[path[-1]] = value
        return mark + tomlkit.dumps(document)
    except TOMLKitError as error:
        raise CannotEdit(f"it cannot be changed: {error}") from error


def _table(document: MutableMapping[str, Any], path: Path) -> MutableMapping[str, Any]:
    table: Any = document
    for depth, key in enumerate(path[:-1]):
        if key not in table:
            raise CannotEdit(f"there is no {dotted(path[: depth + 1])} to put {path[-1]} into")
        table = table[key]
        if not isinstance(table, MutableMapping):
            raise CannotEdit(f"{dotted(path[: depth + 1])} holds no keys")
    assert isinstance(table, MutableMapping)
    return table
