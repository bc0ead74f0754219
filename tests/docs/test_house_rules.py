"""The rules of docs/decisions/0001 that import-linter cannot see: about calls, and about the injected folder."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

VTUNE = Path(__file__).resolve().parents[2] / "vtune"
INJECT = VTUNE / "worker" / "inject"
INJECTED = sorted(INJECT.rglob("*.py"))
SOURCES = [path for path in sorted(VTUNE.rglob("*.py")) if INJECT not in path.parents]
# The bundled trainings are the user's side of the fence: they print as trainings do.
MAY_PRINT = (VTUNE / "cli", VTUNE / "pipelines", VTUNE / "__main__.py")
PRINTERS = {"rich.print", "rich.console.Console", "rich.live.Live"}
ONE_MODULE_EACH = ("optuna", "pynvml", "ray", "pandas", "altair")
READS_OR_WRITES = {
    "exists", "glob", "is_dir", "is_file", "iterdir", "mkdir", "open", "read_bytes", "read_text", "rename", "resolve",
    "rglob", "rmdir", "stat", "touch", "unlink", "write_bytes", "write_text",
}  # fmt: skip
OPENERS = ("open", "input", "exec", "eval", "__import__")
READS_THE_CLOCK = {"now", "today", "utcnow"}


def test_only_the_command_line_prints() -> None:
    found = []
    for path in SOURCES + INJECTED:
        if _within(path, MAY_PRINT):
            continue
        tree = _parse(path)
        found += [_at(path, call) for call in _calls(tree, "print")]
        found += [_at(path, node) for node in _standard_streams(tree)]
        found += [_at(path, node) for node, name in _imports(tree) if name in PRINTERS]
    assert not found


def test_what_wraps_a_library_does_so_in_one_module() -> None:
    importers: dict[str, set[str]] = {library: set() for library in ONE_MODULE_EACH}
    for path in SOURCES:
        for _, name in _imports(_parse(path)):
            if name.split(".")[0] in importers:
                importers[name.split(".")[0]].add(str(path.relative_to(VTUNE)))
    assert {library: sorted(paths) for library, paths in importers.items() if len(paths) > 1} == {}


@pytest.mark.parametrize("package", ["domain", "analysis"])
def test_nouns_and_analysis_touch_no_disk_and_no_clock(package: str) -> None:
    found = []
    for path in sorted((VTUNE / package).rglob("*.py")):
        tree = _parse(path)
        found += [_at(path, call) for name in OPENERS for call in _calls(tree, name)]
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called = node.func.attr
                clock = called in READS_THE_CLOCK and "date" in ast.unparse(node.func.value)
                if clock or (called in READS_OR_WRITES and "path" in ast.unparse(node.func.value).lower()):
                    found.append(_at(path, node))
        if package == "analysis":
            found += [_at(path, node) for node, name in _imports(tree) if name.split(".")[0] == "pathlib"]
    assert not found


def test_a_packages_init_holds_a_docstring_and_no_code() -> None:
    found = []
    for path in SOURCES:
        body = _parse(path).body
        if path.name == "__init__.py" and not (len(body) == 1 and ast.get_docstring(ast.Module(body, []))):
            found.append(str(path.relative_to(VTUNE)))
    assert not found


def test_every_module_opens_with_what_it_is() -> None:
    assert [str(path.relative_to(VTUNE)) for path in SOURCES + INJECTED if not ast.get_docstring(_parse(path))] == []


def test_there_is_something_to_inject() -> None:
    assert INJECT / "sitecustomize.py" in INJECTED


@pytest.mark.parametrize("path", INJECTED, ids=lambda path: path.name)
def test_the_injected_part_needs_nothing_but_the_standard_library(path: Path) -> None:
    own = {part.stem for part in INJECTED} | {part.name for part in INJECT.iterdir() if part.is_dir()}
    allowed = sys.stdlib_module_names | own | {"torch"}
    assert [name for _, name in _imports(_parse(path)) if name.split(".")[0] not in allowed] == []


@pytest.mark.parametrize("path", INJECTED, ids=lambda path: path.name)
def test_the_injected_part_never_imports_torch_by_being_imported(path: Path) -> None:
    """It runs in every Python of the training's tree, most of which never need torch."""
    at_import = [name for node in _run_at_import(_parse(path)) for _, name in _imports_of(node)]
    assert [name for name in at_import if name.split(".")[0] == "torch"] == []


@pytest.mark.parametrize("path", INJECTED, ids=lambda path: path.name)
def test_the_injected_part_is_python_3_10(path: Path) -> None:
    ast.parse(path.read_bytes(), filename=str(path), feature_version=(3, 10))


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), filename=str(path))


def _imports(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    for node in ast.walk(tree):
        yield from _imports_of(node)


def _imports_of(node: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """`import a.b` is a.b, `from a import b` is a.b too: whether b is a module does not matter here."""
    if isinstance(node, ast.Import):
        yield from ((node, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.level == 0:
        yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


def _run_at_import(tree: ast.Module) -> Iterator[ast.AST]:
    """Every statement outside functions: those run when the module is imported."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def _calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def _standard_streams(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("sys.stdout.write", "sys.stderr.write"):
            yield node


def _within(path: Path, places: tuple[Path, ...]) -> bool:
    return any(path == place or place in path.parents for place in places)


def _at(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(VTUNE.parent)}:{getattr(node, 'lineno', 0)}"
