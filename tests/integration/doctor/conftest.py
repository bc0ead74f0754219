"""Faults that are planted into the training's processes, through the environment as a machine would have them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What passes here is not what the developer's machine has passed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return tmp_path / "state" / "vtune" / "validated.json"


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Code that runs at the start of every Python of a trial, after vtune's own hook for it."""

    def planted(code: str) -> None:
        folder = tmp_path / "planted"
        folder.mkdir()
        body = "".join(f"    {line}\n" for line in code.strip().splitlines())
        (folder / "sitecustomize.py").write_text(f"import os\nif os.environ.get('VTUNE_TRIAL'):\n{body}")
        monkeypatch.setenv("PYTHONPATH", str(folder))

    return planted


def children_of_this_test(tmp_path: Path) -> set[str]:
    """Command lines of all that runs the known trainings, of this test by its environment: another suite may run."""
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    line = file.read().replace(b"\0", b" ").decode(errors="replace")
                with open(f"/proc/{name}/environ", "rb") as file:
                    ours = os.fsencode(tmp_path) in file.read()
            except OSError:
                continue
            if ours and "pipelines/selftest" in line:
                found.add(line)
    return found
