"""Real trainings, plain and under the hooks, and a reader of what the hooks wrote."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[3]
INJECT = ROOT / "vtune" / "worker" / "inject"
SCRIPTS = Path(__file__).parent / "scripts"
STAND_IN = Path(__file__).parent / "stand_in"
LOADED, DELIVERED, BACKWARD, STEP = 1, 2, 3, 4


class Record(NamedTuple):
    pid: int
    kind: int
    flags: int
    source: int
    group: int
    index: int
    a: float
    b: float
    c: float
    n1: int
    n2: int


@dataclass(frozen=True)
class Run:
    folder: Path
    stdout: str
    stderr: str
    exit_code: int

    @property
    def said(self) -> tuple[str, str, int]:
        # Python's tracker of semaphores and a loader's last worker race at the end: on a busy machine it seldom names
        # some as leaked that are gone already.
        own = re.sub(
            r"^.*resource_tracker.py:\d+: UserWarning: .*\n(  warnings\.warn.*\n)?", "", self.stderr, flags=re.M
        )
        return self.stdout, own, self.exit_code

    def records(self, kind: int, pid: int | None = None) -> list[Record]:
        found = []
        for path in sorted(self.folder.glob("steps-*.bin")):
            text = path.read_bytes()
            assert text[:16] == struct.pack("<8sII", b"VTUNEREC", 1, 48)
            own = int(path.stem.split("-")[1])
            found += [Record(own, *fields) for fields in struct.iter_unpack("<BBHIqdddII", text[16:])]
        return sorted((r for r in found if r.kind == kind and pid in (None, r.pid)), key=lambda r: r.b)

    def facts(self, name: str) -> list[dict[str, Any]]:
        found = []
        for path in sorted(self.folder.glob("steps-*.jsonl")):
            for line in path.read_text().splitlines():
                fact = json.loads(line)
                if fact["fact"] == name:
                    found.append({**fact, "in": int(path.stem.split("-")[1])})
        return sorted(found, key=lambda fact: fact["t"])

    def pythons(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "pythons.jsonl").read_text().splitlines()]

    def share_of_steps(self, pid: int | None = None) -> dict[str, float]:
        """Loader key -> share of the windows between steps in which it delivered a batch."""
        keys = {(fact["in"], fact["loader"]): fact["key"] for fact in self.facts("loader")}
        steps = self.records(STEP, pid)
        batches = [batch for batch in self.records(DELIVERED, pid) if not batch.flags & 2]
        shares: dict[str, float] = {}
        for key in keys.values():
            own = [batch.b for batch in batches if keys[batch.pid, batch.source] == key]
            begins = [0.0, *(step.b for step in steps[:-1])]
            fed = sum(any(start < b <= step.b for b in own) for start, step in zip(begins, steps, strict=True))
            shares[key] = fed / len(steps)
        return shares


Train = Callable[..., Run]
Both = Callable[..., tuple[Run, Run]]


class Started:
    """A script that is running; made and waited for by the fixtures below."""

    def __init__(
        self,
        folder: Path,
        arguments: tuple[object, ...],
        *,
        watched: bool = True,
        launch: bool = False,
        effects: list[dict[str, Any]] | None = None,
        command: tuple[str, ...] = (sys.executable,),
        path: tuple[Path, ...] = (),
    ) -> None:
        folder.mkdir()
        self.folder = folder
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        # As a user has it: what Python has buffered must still come out when the hooks end the training.
        environment.pop("PYTHONUNBUFFERED", None)
        environment["PYTHONPATH"] = os.pathsep.join(map(str, path))
        if watched:
            environment["PYTHONPATH"] = os.pathsep.join(map(str, (INJECT, *path)))
            environment["VTUNE_TRIAL"] = str(folder)
            environment |= {"VTUNE_LAUNCH": "1"} if launch else {}
            (folder / "spec.json").write_text(json.dumps({"trial": 1, "effects": effects or []}))
        self._streams = [open(folder / name, "wb") for name in ("stdout.log", "stderr.log")]  # noqa: SIM115
        self.process = subprocess.Popen(
            [*command, *map(str, arguments)],
            cwd=SCRIPTS,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._streams[0],
            stderr=self._streams[1],
            start_new_session=True,
        )

    def wait(self) -> Run:
        try:
            exit_code = self.process.wait(60)
        finally:
            self.end()
        texts = [(self.folder / name).read_text() for name in ("stdout.log", "stderr.log")]
        return Run(folder=self.folder, stdout=texts[0], stderr=texts[1], exit_code=exit_code)

    def wait_for(self, *parts: str) -> None:
        """Until one of the trial's facts files holds all of these."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            if all(part in "".join(p.read_text() for p in self.folder.glob("steps-*.jsonl")) for part in parts):
                return
            time.sleep(0.05)
        raise AssertionError(f"nothing like {parts} was written; {self.wait()}")

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for stream in self._streams:
            stream.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Start a script; it is killed when the test ends."""
    running: list[Started] = []

    def one(*arguments: object, **options: Any) -> Started:
        running.append(Started(tmp_path / f"run {len(running)}", arguments, **options))
        return running[-1]

    yield one
    for started in running:
        started.end()


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A first run of the script with many loaders, in which nothing is changed."""
    return Started(tmp_path_factory.mktemp("learnt") / "run", ("many_loaders.py",)).wait()


@pytest.fixture
def train(start: Callable[..., Started]) -> Train:
    """Run a script under the hooks."""
    return lambda *arguments, **options: start(*arguments, **options).wait()


@pytest.fixture
def both(start: Callable[..., Started]) -> Both:
    """Run a script without and with the hooks, at the same time."""

    def pair(*arguments: object, **options: Any) -> tuple[Run, Run]:
        runs = [start(*arguments, **options, watched=watched) for watched in (False, True)]
        return runs[0].wait(), runs[1].wait()

    return pair
