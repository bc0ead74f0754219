"""Two runs of one training on the same cores, plain and watched, which take turns.

Both runs are alive, but only one runs at a time: the other is stopped by SIGSTOP, with all its processes. A turn counts
whole steps between log lines, so drift of the machine hits both alike.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# The first lines of a turn belong to the thaw: batches that lay ready, a step that was cut in two.
DROPPED_LINES = 3
LOOK_S = 0.002
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Start:
    command: Sequence[str]
    # Which gets a line with `Train step` for each step.
    log: Path
    # Where vtune tells of its own processes; None of a plain run.
    supervisor: Path | None = None
    env: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Turn:
    seconds_a_step: float
    # Processor time of the training and of vtune, a step; 0 for a plain run's vtune.
    training_cpu_s: float
    vtune_cpu_s: float


class Training:
    def __init__(self, start: Start) -> None:
        self._log, self._supervisor = start.log, start.supervisor
        with open(start.log.parent / "stdout.log" if start.supervisor is None else os.devnull, "w") as stdout:
            self._process = subprocess.Popen(
                start.command, env={**os.environ, **(start.env or {})}, stdout=stdout, start_new_session=True, cwd=ROOT
            )
        while self.lines() < DROPPED_LINES:
            if self._process.poll() is not None:
                raise SystemExit(f"the training ended with exit code {self._process.returncode}")
            time.sleep(0.05)

    def lines(self) -> int:
        return self._log.read_bytes().count(b"Train step") if self._log.exists() else 0

    def signal(self, number: int) -> None:
        groups = [self._process.pid]
        if self._supervisor is not None:
            of_trial = json.loads(self._supervisor.read_text())
            groups += [of_trial["supervisor_pid"], of_trial["leader_pid"]]
        # The watchers stop first and go on last, so that they never miss the training for a turn's length.
        for group in groups if number == signal.SIGSTOP else reversed(groups):
            os.killpg(group, number)

    def turn(self, seconds: float) -> Turn:
        self.signal(signal.SIGCONT)
        end, seen, times = time.monotonic() + seconds, self.lines(), []
        before, size = self._cpu_s(), self._log.stat().st_size
        while time.monotonic() < end:
            time.sleep(LOOK_S)
            if self._log.stat().st_size != size:
                size, now = self._log.stat().st_size, time.monotonic()
                lines = self.lines()
                times += [now] * (lines - seen)
                seen = lines
        self.signal(signal.SIGSTOP)
        training, vtune = (after - then for after, then in zip(self._cpu_s(), before, strict=True))
        steps, times = len(times), times[DROPPED_LINES:]
        if len(times) < 3:
            raise SystemExit(f"only {len(times)} steps in a turn of {seconds} s: make the turns longer")
        return Turn((times[-1] - times[0]) / (len(times) - 1), training / steps, vtune / steps)

    def _cpu_s(self) -> tuple[float, float]:
        """Of the training's tree, and of vtune's own processes."""
        if self._supervisor is None:
            return _tree_cpu_s(self._process.pid), 0.0
        of_trial = json.loads(self._supervisor.read_text())
        leader = _tree_cpu_s(of_trial["leader_pid"])
        return leader, _tree_cpu_s(self._process.pid) - leader

    def end(self) -> None:
        """By Ctrl-C where vtune owns the tree: it leaves nothing behind."""
        self.signal(signal.SIGCONT)
        os.killpg(self._process.pid, signal.SIGINT if self._supervisor is not None else signal.SIGKILL)
        self._process.wait()


def _tree_cpu_s(pid: int) -> float:
    """With what ended children left behind."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = [
            int(child)
            for task in os.listdir(f"/proc/{pid}/task")
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split()
        ]
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS + sum(map(_tree_cpu_s, children))


def one_launch(
    start: Callable[[Path, bool], Start], *, pairs: int, turn_s: float, dice: random.Random
) -> list[dict[bool, Turn]]:
    """Turns of the plain (False) and the watched run (True)."""
    with tempfile.TemporaryDirectory(prefix="vt-") as folder:
        both: dict[bool, Training] = {}
        try:
            for probed in dice.sample([True, False], 2):
                own = Path(folder, str(probed))
                own.mkdir()
                both[probed] = Training(start(own, probed))
                both[probed].signal(signal.SIGSTOP)
            return [
                {probed: both[probed].turn(turn_s) for probed in dice.sample([True, False], 2)} for _ in range(pairs)
            ]
        finally:
            for training in both.values():
                training.end()


def summary(launches: Sequence[Sequence[dict[bool, Turn]]], dice: random.Random) -> dict[str, Any]:
    """The interval is over launches: two of the same thing differ by a percent or two."""
    ratios = [
        statistics.fmean(math.log(turn[True].seconds_a_step / turn[False].seconds_a_step) for turn in turns)
        for turns in launches
    ]
    every = [turn for turns in launches for turn in turns]
    means = sorted(statistics.fmean(dice.choices(ratios, k=len(ratios))) for _ in range(2000))
    plain_cpu_s = statistics.fmean(turn[False].training_cpu_s for turn in every)
    return {
        "launches": len(launches),
        "turns": len(every),
        "plain_ms_a_step": round(statistics.median(turn[False].seconds_a_step for turn in every) * 1e3, 1),
        "added_percent": round(math.expm1(statistics.fmean(ratios)) * 100, 2),
        "added_percent_ci95": [round(math.expm1(means[i]) * 100, 2) for i in (50, 1949)],
        "by_launch_percent": [round(math.expm1(ratio) * 100, 2) for ratio in ratios],
        "training_cpu_percent": round(
            (statistics.fmean(turn[True].training_cpu_s for turn in every) / plain_cpu_s - 1) * 100, 2
        ),
        "vtune_cpu_percent": round(statistics.fmean(turn[True].vtune_cpu_s for turn in every) / plain_cpu_s * 100, 2),
    }
