"""Processor time that a trial's watcher takes, in virtual time: no clock of this machine decides anything here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from support.training_log import TrainingLog
from support.trial_writer import PID
from vtune.domain.experiment import PlannedRun, Window
from vtune.domain.trial import EndedBy, TrialOutcome, TrialSpec
from vtune.execution import observer
from vtune.execution.observer import ESTIMATES_SHARE, LOOKS_SHARE, POLL_SHARE, Watch
from vtune.execution.sampling import LOOKS_AT_FIRST, SELDOM_SAMPLE_S, Sampling
from vtune.execution.spending import THRIFT, Spending
from vtune.execution.trial import run_trial
from vtune.journal.paths import TrialPaths

SPEC = TrialSpec(
    trial=1, origin="asked", reason="", settings={}, effects=(), command=("python",), cwd="/", env={}, token="t"
)


class Clocks:
    """Seconds of the machine, and of vtune's own processor time."""

    def __init__(self) -> None:
        self.now_s = self.spent_s = 0.0

    def spends(self, function: Any, cost_s: float) -> Any:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.spent_s += cost_s
            self.now_s += cost_s
            return function(*args, **kwargs)

        return counted

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clocks]:
    clocks = Clocks()
    monkeypatch.setattr(time, "monotonic", lambda: clocks.now_s)
    monkeypatch.setattr(time, "sleep", clocks.sleep)
    monkeypatch.setattr(time, "thread_time", lambda: clocks.spent_s)
    monkeypatch.setattr(observer, "Spending", partial(Spending, spent=time.thread_time))
    monkeypatch.setattr(Sampling, "cores_are_full", lambda self: False)
    yield clocks
    monkeypatch.undo()


class Stepping:
    """A training of equal steps, which ends when it is told to."""

    own_pids = ()

    def __init__(self, log: TrainingLog, clocks: Clocks, step_s: float) -> None:
        self._log, self._clocks, self._step_s, self._ended = log, clocks, step_s, False
        self.steps = 0

    def start(self, spec: TrialSpec, folder: Path) -> Stepping:
        self._log.begin()
        return self

    def pids(self) -> tuple[int, ...]:
        return ()

    def poll(self) -> TrialOutcome | None:
        while self._log.now < self._clocks.now_s:
            self._log.batch(2)
            self._log.backward()
            self._log.step()
            self._log.now += self._step_s - 0.03
            self.steps += 1
        return TrialOutcome(ended_by="window", exit_code=0, signal=None, seconds=1.0) if self._ended else None

    def end(self, reason: EndedBy, grace_s: float) -> None:
        self._ended = True

    kill = close = end

    def __enter__(self) -> Stepping:
        return self

    def __exit__(self, *error: Any) -> None: ...


@pytest.mark.parametrize("step_s", [0.04, 0.4])
@pytest.mark.parametrize("full", [False, True])
def test_a_watcher_takes_at_most_its_share_of_a_core(
    tmp_path: Path, clocks: Clocks, monkeypatch: pytest.MonkeyPatch, step_s: float, full: bool
) -> None:
    monkeypatch.setattr(Sampling, "cores_are_full", lambda self: full)
    look_s, estimate_s = 0.004, 0.04
    monkeypatch.setattr(observer, "find_roles", clocks.spends(observer.find_roles, look_s))
    measured = observer.measure

    def never_sure(*args: Any, **kwargs: Any) -> Any:
        return replace(measured(*args, **kwargs), samples_per_s=1.0, samples_per_s_ci95=(0.1, 9.0), rate_from="twin")

    monkeypatch.setattr(observer, "measure", clocks.spends(never_sure, estimate_s))
    training = Stepping(TrainingLog(tmp_path), clocks, step_s)
    watch = Watch(window=Window(steps=50, max_steps=300, trial_time_s=1e4), planned=PlannedRun())
    run_trial(training, SPEC, TrialPaths(tmp_path), watch, lambda event: None)
    assert training.steps >= 300
    # The first of each comes at once, and so does an estimate where the window may end.
    share = (LOOKS_SHARE + ESTIMATES_SHARE) / (THRIFT if full else 1.0)
    allowed_s = share * clocks.now_s + 2 * look_s + 3 * estimate_s
    assert clocks.spent_s <= 1.05 * allowed_s


def test_a_window_ends_with_its_steps_however_dear_a_look_is(
    tmp_path: Path, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer, "find_roles", clocks.spends(observer.find_roles, 0.03))
    training = Stepping(TrainingLog(tmp_path), clocks, 0.04)
    watch = Watch(window=Window(steps=50, max_steps=50), planned=PlannedRun())
    run_trial(training, SPEC, TrialPaths(tmp_path), watch, lambda event: None)
    assert training.steps < 70


def test_a_window_that_is_never_sure_ends_with_its_most_steps_on_full_cores(
    tmp_path: Path, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sampling, "cores_are_full", lambda self: True)
    monkeypatch.setattr(observer, "find_roles", clocks.spends(observer.find_roles, 0.03))
    measured = observer.measure

    def never_sure(*args: Any, **kwargs: Any) -> Any:
        return replace(measured(*args, **kwargs), samples_per_s=1.0, samples_per_s_ci95=(0.1, 9.0), rate_from="twin")

    monkeypatch.setattr(observer, "measure", clocks.spends(never_sure, 0.1))
    training = Stepping(TrainingLog(tmp_path), clocks, 0.04)
    watch = Watch(window=Window(steps=50, max_steps=100), planned=PlannedRun())
    run_trial(training, SPEC, TrialPaths(tmp_path), watch, lambda event: None)
    assert 100 <= training.steps < 125


class TwoRanks(Stepping):
    def __init__(self, folder: Path, clocks: Clocks, step_s: float) -> None:
        super().__init__(TrainingLog(folder), clocks, step_s)
        self._other = Stepping(TrainingLog(folder, pid=PID + 1), clocks, step_s)

    def start(self, spec: TrialSpec, folder: Path) -> Stepping:
        self._other.start(spec, folder)
        return super().start(spec, folder)

    def poll(self) -> TrialOutcome | None:
        self._other.poll()
        return super().poll()


def test_ranks_are_told_to_end_after_a_step_that_none_has_passed_however_long_ago_the_last_look_was(
    tmp_path: Path, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer, "find_roles", clocks.spends(observer.find_roles, 0.06))
    training = TwoRanks(tmp_path, clocks, 0.04)
    told: list[tuple[int, Any]] = []

    def interrupted_once(event: Any) -> None:
        told.append((training.steps, event.provisional))
        if clocks.now_s > 18.0 and not training._ended:
            raise KeyboardInterrupt

    watch = Watch(window=Window(steps=10_000, max_steps=10_000), planned=PlannedRun())
    run_trial(training, SPEC, TrialPaths(tmp_path), watch, interrupted_once)
    asked = next(steps for steps, _ in told if steps * 0.04 > 18.0)
    assert int(TrialPaths(tmp_path).stop.read_text()) > asked


def test_dear_work_is_done_so_seldom_that_its_share_holds() -> None:
    spent = iter([0.0, 0.5, 1.0, 1.01])
    work = Spending(0.1, every_s=2.0, now_s=0.0, spent=lambda: next(spent))
    assert work.is_due(0.0)
    with work.on(0.0):
        pass
    assert not work.is_due(4.9) and work.is_due(5.0)
    with work.on(5.0):
        pass
    assert not work.is_due(6.9) and work.is_due(7.0)


@pytest.mark.parametrize(("full", "seldom"), [(False, 1.0), (True, 0.3)])
def test_files_and_machine_are_read_more_seldom_on_full_cores(
    tmp_path: Path, clocks: Clocks, monkeypatch: pytest.MonkeyPatch, full: bool, seldom: float
) -> None:
    sample_s, looks = 0.0008, 0
    monkeypatch.setattr(Sampling, "may_rest", lambda self: full)
    look = Sampling.look

    def counted(self: Sampling, now_s: float) -> None:
        nonlocal looks
        looks += 1
        look(self, now_s)

    monkeypatch.setattr(Sampling, "look", clocks.spends(counted, sample_s))
    training = Stepping(TrainingLog(tmp_path), clocks, 0.4)
    watch = Watch(window=Window(steps=50, max_steps=50), planned=PlannedRun())
    run_trial(training, SPEC, TrialPaths(tmp_path), watch, lambda event: None)
    assert training.steps >= 50
    assert looks <= seldom * (clocks.now_s / observer.POLL_S + 1)
    assert not full or looks * sample_s <= 1.1 * POLL_SHARE * clocks.now_s


def test_a_training_on_full_cores_is_looked_at_as_often_at_first(
    tmp_path: Path, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sampling, "cores_are_full", lambda self: True)
    at: list[float] = []
    sample = Sampling.sample

    def noted(self: Sampling, now_s: float, **asked: Any) -> Any:
        at.append(now_s)
        clocks.spent_s += 0.002
        return sample(self, now_s, **asked)

    monkeypatch.setattr(Sampling, "sample", noted)
    training = Stepping(TrainingLog(tmp_path), clocks, 0.1)
    watch = Watch(window=Window(steps=150, max_steps=150), planned=PlannedRun())
    run_trial(training, SPEC, TrialPaths(tmp_path), watch, lambda event: None)
    apart = [b - a for a, b in pairwise(at)]
    assert max(apart[:LOOKS_AT_FIRST]) < SELDOM_SAMPLE_S
    assert median(apart[LOOKS_AT_FIRST + 5 :]) >= SELDOM_SAMPLE_S
