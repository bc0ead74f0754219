"""What holds for every test: which ones run on this machine, in which order, in which environment."""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.without_torch import needs_torch
from vtune.telemetry.other_programs import IGNORE, VARIABLE

# Started in the background of a shell, the suite would ignore Ctrl-C, and so would every program that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


ROOT = Path(__file__).resolve().parent.parent
HAS_TORCH = importlib.util.find_spec("torch") is not None
# Settings of the developer's shell, and of the `make` that started pytest.
OF_A_SHELL = {"PYTHONPATH", "FORCE_COLOR", "PY_COLORS", "MAKEFLAGS", "MFLAGS", "MAKELEVEL"}
COUNTER = itertools.count()


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session", autouse=True)
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment that pytest was started in: pip and git need the developer's own settings.

    Fixtures that serve several tests run in a place of their own too.
    """
    before = dict(os.environ)
    with pytest.MonkeyPatch.context() as patch:
        _move(patch, tmp_path_factory.mktemp("shared"))
        yield before


@pytest.fixture(autouse=True)
def own_place(
    outside: dict[str, str], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Each test starts in an empty folder, with an empty home, and nothing of the developer's shell leaks into it."""
    place = tmp_path_factory.getbasetemp() / "places" / str(next(COUNTER))
    place.mkdir(parents=True)
    _move(monkeypatch, place)
    yield
    monkeypatch.undo()
    shutil.rmtree(place, ignore_errors=True)


def _move(patch: pytest.MonkeyPatch, place: Path) -> None:
    for name in list(os.environ):
        if name in OF_A_SHELL or name.startswith(("VTUNE_", "XDG_")):
            patch.delenv(name)
    patch.setenv("NO_COLOR", "1")
    # Tests run beside each other: a test that is about a busy machine takes it away again, all others measure as they
    # can. Every record that is made so says it.
    patch.setenv(VARIABLE, IGNORE)
    # Help texts are as wide everywhere.
    patch.setenv("COLUMNS", "120")
    for name in ("home", "here"):
        (place / name).mkdir()
    patch.setenv("HOME", str(place / "home"))
    patch.chdir(place / "here")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Without torch (the parent's own situation) the tests of the parent still run."""
    source = collection_path / "conftest.py" if collection_path.is_dir() else collection_path
    if HAS_TORCH or source.suffix != ".py" or not source.is_file():
        return None
    return needs_torch(source) or None


def pytest_report_header() -> str:
    return f"torch: {'here' if HAS_TORCH else 'not here, tests that need it are left out'}; GPUs: {_gpu_count()}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(ROOT / "tests" / "gpu"):
            item.add_marker(pytest.mark.gpu)
            item.add_marker(pytest.mark.timing)
    if _gpu_count() == 0:
        left_out = [item for item in items if item.get_closest_marker("gpu")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]
    # Those with more than the usual time first, so that no neighbour waits for one of them at the end.
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)
    items.sort(key=lambda item: item.get_closest_marker("timing") is not None)


def _gpu_count() -> int:
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no driver, no library, no permission: no GPU for a test
        return 0
    try:
        return int(pynvml.nvmlDeviceGetCount())
    finally:
        pynvml.nvmlShutdown()
