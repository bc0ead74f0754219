"""What the guard of a full run ends, and what it only tells: over a process that sleeps, with counters and a driver of
our own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from support.counters import write_counts
from support.told_driver import told_driver
from vtune.domain.launch import Promise
from vtune.domain.record import Measurement
from vtune.domain.trial import TrialStatus
from vtune.execution.engines.local import LocalEngine
from vtune.execution.launch_guard import AttemptEnd, Guarded, Standing, run_attempt
from vtune.journal.paths import TrialPaths

GIB = 2**30
PROMISE = Promise(trial=1, samples_per_s=20.0, effective_batch=2)


class Guard:
    def __init__(self, trials: Any) -> None:
        self.trials, self.folder = trials, TrialPaths(trials.root / "attempt")
        self.folder.root.mkdir()
        self.told: list[tuple[str, str]] = []

    def follow(
        self, sleep_s: int, show: Callable[[Standing], None] = lambda standing: None, **asked: Any
    ) -> AttemptEnd:
        return run_attempt(
            LocalEngine(self.trials.inject),
            replace(self.trials.spec("sleep", str(sleep_s)), outlives=True),
            self.folder,
            Guarded(promise=PROMISE, trial=Measurement(), **asked),
            tell=lambda kind, text: self.told.append((kind, text)),
            show=show,
        )


@pytest.fixture
def guard(trials: Any) -> Guard:
    return Guard(trials)


def test_what_takes_more_vram_than_the_user_allows_is_asked_to_save_and_end(
    guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = told_driver(monkeypatch, total_bytes=8 * GIB)
    driver.processes = {}

    def take_memory(standing: Standing) -> None:
        driver.processes = {standing.leader_pid or 0: 5 * GIB}

    end = guard.follow(30, take_memory, vram_bytes=4 * GIB)
    assert end.verdict is not None and (end.verdict.status, end.verdict.trouble) == (TrialStatus.OUT_OF_VRAM, "vram")
    assert end.verdict.why == "5 GiB of VRAM in use, over the limit of 4 GiB"
    assert end.outcome.ended_by == "limit" and [kind for kind, _ in guard.told] == ["verdict"]


@pytest.mark.parametrize(("busy_percent", "sleep_s", "ended"), [(0, 60, TrialStatus.HUNG), (80, 7, None)])
def test_what_waits_for_a_device_at_work_does_not_hang(
    guard: Guard, monkeypatch: pytest.MonkeyPatch, busy_percent: int, sleep_s: int, ended: TrialStatus | None
) -> None:
    told_driver(monkeypatch, total_bytes=8 * GIB).util_percent = busy_percent
    write_counts(guard.folder.root, time.monotonic(), 9)
    end = guard.follow(sleep_s, hang_time_s=3.0)
    assert (end.verdict.status if end.verdict is not None else None) is ended


def test_slower_than_promised_is_told_and_so_is_that_it_is_fast_again(
    guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vtune.execution.launch_sight.LOOK_S", 0.1)
    began_s = time.monotonic() - 60.0
    looks = iter([(10, 1.0), (30, 11.0), (50, 21.0), (70, 23.0)])

    def step(standing: Standing) -> None:
        try:
            steps, after_s = next(looks)
        except StopIteration:
            raise KeyboardInterrupt from None
        write_counts(guard.folder.root, began_s + after_s, steps)

    guard.follow(1000, step)
    assert [kind for kind, _ in guard.told] == ["slow", "recovered", "asked"]
    (_, slow), (_, recovered), _ = guard.told
    assert "4 samples/s instead of 20" in slow and recovered == "as fast as promised again: 20 samples/s"
