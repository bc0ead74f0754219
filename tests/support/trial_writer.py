"""Writes a trial's files as the worker and the sampler would: the boundary at which these tests fake a training."""

from __future__ import annotations

import json
import os
from pathlib import Path

from vtune.analysis.measure import Observed
from vtune.analysis.roles import find_roles
from vtune.journal.paths import TrialPaths
from vtune.journal.step_log import HEADER, MAGIC, RECORD, VERSION, StepLog

PID = 4000


class TrialWriter:
    def __init__(self, root: Path) -> None:
        self.paths = TrialPaths(root)
        root.mkdir(parents=True, exist_ok=True)
        (root / "supervisor.json").write_text(json.dumps({"supervisor_pid": 1, "leader_pid": PID, "started_s": 0.0}))
        self._counts: dict[tuple[int, int], int] = {}

    def fact(self, name: str, pid: int = PID, t: float = 0.0, **data: object) -> None:
        with open(self.paths.root / f"steps-{pid}.jsonl", "a") as file:
            file.write(json.dumps({"t": t, "fact": name, **data}) + "\n")

    def record(self, kind: int, pid: int = PID, flags: int = 1, source: int = 0, group: int = 0, index: int = 0,
               a: float = 0.0, b: float = 0.0, c: float = 0.0, n1: int = 0, n2: int = 0) -> None:  # fmt: skip
        path = self.paths.root / f"steps-{pid}.bin"
        new = not path.exists()
        with open(path, "ab") as file:
            if new:
                file.write(HEADER.pack(MAGIC, VERSION, RECORD.size))
            file.write(RECORD.pack(kind, flags, source, group, index, a, b, c, n1, n2))

    def hello(self, pid: int = PID) -> None:
        self.fact("hello", pid, argv=["train.py"], torch="2.13.0", rank=None)

    def loader(self, number: int = 0, key: str = "train.py:8:Patches#0 aaaa", pid: int = PID) -> None:
        self.fact("loader", pid, loader=number, key=key, dataset="Patches", where="train.py:8")

    def begin_pass(
        self,
        number: int = 0,
        loader: int = 0,
        workers: int = 2,
        prefetch: int = 2,
        batch: int = 2,
        length: int | None = 100,
        begun: float = 0.0,
        pid: int = PID,
        persistent: bool = False,
        resume: int = 0,
        pids: list[int] | None = None,
        order: str | None = None,
        samples: int | None = None,
        data: int | None = None,
    ) -> list[int]:
        """`pids`: workers of a pass before that serve this one, too."""
        pids = pids or [5000 + 10 * number + w for w in range(workers)]
        self.fact(
            "pass", pid, **{"pass": number}, loader=loader, resume=resume, begun=begun, ready=begun, length=length,
            worker_pids=pids, order=order, samples=samples, data=data,
            effective={"num_workers": workers, "prefetch_factor": prefetch if workers else None,
                       "persistent_workers": persistent, "pin_memory": False, "batch_size": batch},
        )  # fmt: skip
        return pids

    def deliver(self, asked: float, returned: float, index: int = 0, loader: int = 0, pass_number: int = 0,
                samples: int = 2, flags: int = 5, pid: int = PID) -> None:  # fmt: skip
        self.record(2, pid, flags, loader, pass_number, index, asked, returned, n1=samples, n2=samples)

    def load(self, pid: int, worker: int, index: int, started: float, finished: float, samples: int = 2,
             resume: int = 0, computing: float = 0.5) -> None:  # fmt: skip
        self.record(1, pid, 0, worker, resume, index, started, finished, (finished - started) * computing, n1=samples)

    def step(self, ended: float, optimizer: int = 0, pid: int = PID, flags: int = 1) -> None:
        number = self._counts[pid, optimizer] = self._counts.get((pid, optimizer), 0) + 1
        self.record(4, pid, flags, optimizer, 0, number, b=ended)


def observed(writer: TrialWriter) -> Observed:
    """All that was written so far, read back."""
    log = StepLog(writer.paths)
    while log.refresh():
        pass
    return Observed(
        roles=find_roles(log.steps, log.delivered, log.facts),
        loaded=log.loaded,
        delivered=log.delivered,
        steps=log.steps,
        backwards=log.backwards,
        facts=log.facts,
        telemetry=(),
        stages=log.stages,
        started_s=-2.0,
    )


def replay_loader(writer: TrialWriter, *, steps: int, workers: int, prefetch: int, load_s: float, compute_s: float,
                  first_step_s: float = 0.0, batch: int = 2, flags: int = 5) -> None:  # fmt: skip
    """A training fed by a real loader's schedule: in order, each worker round-robin, workers × prefetch in advance."""
    writer.hello()
    writer.loader()
    pids = writer.begin_pass(workers=workers, prefetch=prefetch, batch=batch)
    finished: list[float] = []
    delivered: list[float] = []
    now = 0.0
    for j in range(steps):
        free = finished[j - workers] if j >= workers else 0.0
        issued = delivered[j - workers * prefetch] if j >= workers * prefetch else 0.0
        start = max(free, issued)
        finished.append(start + load_s)
        returned = max(finished[j], now)
        delivered.append(returned)
        writer.load(pids[j % workers], j % workers, j, start, finished[j], batch)
        writer.deliver(now, returned, j, samples=batch, flags=flags)
        now = returned + compute_s + (first_step_s if j == 0 else 0.0)
        writer.step(now)


def tear(path: Path, drop: int) -> None:
    """Cut the last bytes off, as a kill in the middle of a write does."""
    os.truncate(path, path.stat().st_size - drop)
