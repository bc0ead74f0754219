"""Real trials of real processes: started by the local engine, looked for by their token."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from vtune.domain.trial import TrialOutcome, TrialSpec
from vtune.execution.engines.local import LocalEngine, LocalTrial
from vtune.execution.process_tree import carriers, processes
from vtune.journal.files import dump_json

T = TypeVar("T")


class Trials:
    """Starts trials in folders of this test and ends what the test forgot."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.inject = root / "inject"
        self.inject.mkdir()
        self._started: list[LocalTrial] = []

    def spec(self, *command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> TrialSpec:
        return TrialSpec(
            trial=1,
            origin="probe",
            reason="a test",
            settings={},
            effects=(),
            command=command,
            cwd=str(cwd or self.root),
            env=env or {},
            token=os.urandom(16).hex(),
        )

    def folder(self, spec: TrialSpec, name: str = "0001") -> Path:
        folder = self.root / "trials" / name
        folder.mkdir(parents=True)
        dump_json(folder / "spec.json", spec)
        return folder

    def start(self, spec: TrialSpec, folder: Path | None = None) -> LocalTrial:
        trial = LocalEngine(self.inject).start(spec, folder or self.folder(spec))
        self._started.append(trial)
        return trial

    def python(self, code: str, *arguments: str) -> tuple[LocalTrial, Path, str]:
        """A trial of this code, its folder and its token."""
        spec = self.spec(sys.executable, "-c", code, *arguments)
        folder = self.folder(spec, f"{len(self._started) + 1:04d}")
        return self.start(spec, folder), folder, spec.token

    def close(self) -> None:
        for trial in self._started:
            trial.close("interrupt")


@pytest.fixture
def trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trials]:
    short = Path("/tmp") / f"t{os.urandom(3).hex()}"  # socket paths end at 108 bytes, pytest's own folders are long
    short.mkdir()
    monkeypatch.setenv("TMPDIR", str(short))
    trials = Trials(tmp_path)
    try:
        yield trials
    finally:
        trials.close()
    assert list(short.iterdir()) == [], "a temporary folder was left behind"
    short.rmdir()


@pytest.fixture
def neighbour() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts processes that are not the trial's, and ends them."""
    started: list[subprocess.Popen[str]] = []

    def start(*command: str) -> subprocess.Popen[str]:
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def wait_for(what: Callable[[], T | None], within_s: float = 30.0) -> T:
    give_up_s = time.monotonic() + within_s
    while time.monotonic() < give_up_s:
        found = what()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"did not happen within {within_s} s")


@pytest.fixture(name="wait_for")
def _wait_for() -> Callable[..., object]:
    return wait_for


@pytest.fixture
def finish() -> Callable[[LocalTrial], TrialOutcome]:
    return lambda trial: wait_for(trial.poll)


@pytest.fixture
def printed() -> Callable[[Path], list[str]]:
    """The words on the training's first line, once it has written one."""

    def words(folder: Path) -> list[str]:
        def first_line() -> list[str] | None:
            log = folder / "stdout.log"
            text = log.read_text() if log.exists() else ""
            return text.split("\n")[0].split() if "\n" in text else None

        return wait_for(first_line)

    return words


@pytest.fixture
def living() -> Callable[[str], list[int]]:
    """Processes that carry a trial's token."""

    def pids(token: str) -> list[int]:
        return [pid for pid, process in carriers(token, processes()).items() if process.living]

    return pids
