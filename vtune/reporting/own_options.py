"""The option of a script's own command line that feeds an expression, where its source plainly defines one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from vtune.domain.effects import Scalar
from vtune.foreign.read import read_text
from vtune.reporting.words import setting_word

# Larger than any script that a person wrote.
LARGEST_BYTES = 4 * 1024 * 1024


def feeding(expression: ast.expr) -> str | None:
    """The last name of what is set elsewhere: `num_workers` of `args.num_workers` and of `cfg["num_workers"]`. None of
    what is computed here: of which of its parts it should be, nobody can say."""
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
        case _:
            return None


def words_to_type(trees: list[ast.Module], name: str, value: Scalar) -> tuple[str, ...] | None:
    """None where no option, or more than one, is kept under that name, or where its value is not simply typed."""
    found = [call for tree in trees for call in _options(tree) if _kept_as(call) == name]
    if len(found) != 1:
        return None
    [call] = found
    flag = max(_flags(call), key=len)
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    match given.get("action"):
        case None | ast.Constant(value="store"):
            plain = not isinstance(value, bool) and "nargs" not in given
            return (flag, setting_word(value)) if plain else None
        case ast.Constant(value="store_true"):
            return (flag,) if value is True else None
        case _:
            return None


def tree_of(file: Path) -> tuple[ast.Module, str] | None:
    try:
        text = read_text(file, most=LARGEST_BYTES)
        return ast.parse(text), text
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None


def _options(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "add_argument" and _flags(node):
            yield node


def _flags(call: ast.Call) -> list[str]:
    words = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return [word for word in words if word.startswith("-")]


def _kept_as(call: ast.Call) -> str | None:
    for keyword in call.keywords:
        if keyword.arg == "dest":
            return keyword.value.value if isinstance(keyword.value, ast.Constant) else None  # type: ignore[return-value]
    # As argparse has it: the first long one, else the first.
    flags = _flags(call)
    first = next((flag for flag in flags if flag.startswith("--")), flags[0])
    return first.lstrip("-").replace("-", "_")
