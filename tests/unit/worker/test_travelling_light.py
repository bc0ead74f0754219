"""The injected folder runs in any interpreter from 3.10 on, and needs nothing but the standard library."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

INJECT = Path(__file__).resolve().parents[3] / "vtune" / "worker" / "inject"
FILES = sorted(INJECT.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_is_short_reads_as_python_3_10_and_imports_only_the_standard_library(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text, feature_version=(3, 10))
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    assert names <= set(sys.stdlib_module_names) | {"_vtune_hooks", "sitecustomize"}
    assert len(text.splitlines()) < 400
    assert "print(" not in text


def test_the_first_file_is_readable_for_any_interpreter() -> None:
    tree = ast.parse((INJECT / "sitecustomize.py").read_text())
    modern = (ast.AnnAssign, ast.NamedExpr, ast.JoinedStr, ast.FunctionDef, ast.Match)
    assert not [node for node in ast.walk(tree) if isinstance(node, modern)]
    imported = [alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert "annotations" not in imported
