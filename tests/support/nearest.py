"""Which unit tests another Python, or other dependencies, could break: those nearest to the modules that ask them.

Nearest to a module is the test named after it, or else the one that imports it and the least besides.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path

from support.without_torch import needs_torch

ROOT = Path(__file__).resolve().parents[2]
PACKAGE, INJECT, TESTS = ROOT / "vtune", ROOT / "vtune" / "worker" / "inject", ROOT / "tests" / "unit"
OURS = {"vtune", "_vtune_hooks"}
# They read no format and ask nothing of the system: code that asks no more computes alike on every Python.
PLAIN = {
    "__future__", "abc", "bisect", "collections", "contextlib", "dataclasses", "enum", "functools", "itertools", "math",
    "operator", "statistics", "typing",
}  # fmt: skip


def asks_the_standard_library(imports: set[str]) -> bool:
    return not imports & sys.stdlib_module_names <= PLAIN


def asks_a_dependency(imports: set[str]) -> bool:
    return not imports <= sys.stdlib_module_names | OURS


def others_than_the_nearest(asks: Callable[[set[str]], bool]) -> list[Path]:
    """The unit tests that are not nearest to any module whose imports (top names) ask so."""
    imports = {test: _imports(test) for test in TESTS.rglob("test_*.py") if not needs_torch(test)}
    modules = [path for path in PACKAGE.rglob("*.py") if asks({name.partition(".")[0] for name in _imports(path)})]
    nearest = {_nearest(path, imports) for path in modules}
    return sorted(imports.keys() - nearest)


def _nearest(module: Path, imports: dict[Path, set[str]]) -> Path | None:
    inside = module.is_relative_to(INJECT)
    folder = TESTS / "worker" if inside else TESTS / module.parent.relative_to(PACKAGE)
    if (own := folder / f"test_{module.name}") in imports:
        return own
    name = ".".join(module.relative_to(INJECT if inside else ROOT).with_suffix("").parts)
    those = [test for test, names in imports.items() if name in names]
    return min(those, key=lambda test: (len(imports[test]), test), default=None)


def _imports(path: Path) -> set[str]:
    """Dotted names, those of functions and classes among them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found
