"""When a full run renews its promise, and why: simulated runs over virtual time, looked at each second."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import exp, sqrt
from random import Random
from statistics import fmean, stdev

import pytest

from vtune.analysis.guard.learning import OFTEN, Learning
from vtune.analysis.guard.progress import Progress
from vtune.analysis.guard.slow import Cause
from vtune.domain.launch import Promise
from vtune.domain.record import Measurement, Pause, Projection
from vtune.domain.renewal import OtherPace, RarePause, Renewal
from vtune.domain.steady import CacheFills, FromStorage, Order, PartOfEpoch, Trend

BATCH, STEP_S = 4, 0.05
RATE = BATCH / STEP_S
Shape = Callable[[Random, int], list[float]]


@dataclass
class Run:
    """Times of its steps. A pause of so many seconds comes after each n-th step; a stop is one that nobody counts."""

    steps: Sequence[float]
    waits: Sequence[float] = ()
    pauses: dict[str, tuple[int, float]] = field(default_factory=dict)

    def looks(self) -> list[Progress]:
        ends, now, counts = [], 0.0, {"checkpoint": 0, "validation": 0, "pass": 0}
        told: list[tuple[float, dict[str, int], float, float]] = [(0.0, dict(counts), 0.0, 0.0)]
        saved_s = 0.0
        for number, took_s in enumerate(self.steps, 1):
            now += took_s
            ends.append(now)
            for what, (every, pause_s) in self.pauses.items():
                if number % every == 0:
                    now += pause_s
                    if what in counts:
                        counts[what] += 5 if what == "validation" else 1
                        saved_s += pause_s if what == "checkpoint" else 0.0
                        told.append((now, dict(counts), saved_s, now))
        at = [moment for moment, *_ in told]
        waits = [0.0, *accumulate(self.waits)] if self.waits else [0.0] * (len(ends) + 1)
        looks = []
        for second in range(1, int(now) + 1):
            done = bisect_right(ends, second)
            _, known, save_s, aside_s = told[bisect_right(at, second) - 1]
            looks.append(
                Progress(
                    t_s=second,
                    steps=done,
                    last_step_s=ends[done - 1] if done else None,
                    aside=sum(known.values()),
                    last_aside_s=aside_s or None,
                    felt_saves=known["checkpoint"],
                    save_s=save_s,
                    validated=known["validation"],
                    passes=known["pass"],
                    waited_s=waits[done],
                )
            )
        return looks


def promise(rate: float = RATE, ci: float = 0.02) -> Promise:
    return Promise(
        trial=3, samples_per_s=rate, samples_per_s_ci95=(rate * (1 - ci), rate * (1 + ci)), effective_batch=BATCH
    )


def learnt(
    run: Run,
    trial: Measurement | None = None,
    promised: Promise | None = None,
    why: Callable[[float], Cause] = lambda seconds: "unknown",
) -> list[Renewal]:
    learning = Learning(promised or promise(), trial or Measurement(samples_per_s=RATE), why)
    return [found for look in run.looks() if (found := learning.look(look)) is not None]


def alike(random: Random, steps: int) -> list[float]:
    return [STEP_S * random.lognormvariate(0.0, 0.2) for _ in range(steps)]


def heavy(random: Random, steps: int) -> list[float]:
    return [STEP_S * random.lognormvariate(0.0, 0.8) for _ in range(steps)]


def sticky(random: Random, steps: int) -> list[float]:
    """Resembles itself over some twenty steps."""
    found, now = [], 0.0
    for _ in range(steps):
        now = 0.95 * now + sqrt(1 - 0.95**2) * random.gauss(0, 0.15)
        found.append(STEP_S * exp(now))
    return found


def with_slow_ones(random: Random, steps: int) -> list[float]:
    return [STEP_S * (8.0 if random.random() < 0.02 else random.uniform(0.9, 1.1)) for _ in range(steps)]


def as_promised(times: Sequence[float]) -> Promise:
    """By the trial's window, with an interval by Student's t from six parts of it: longer than a spell each."""
    parts = [fmean(times[at : at + 50]) for at in range(0, 300, 50)]
    return promise(BATCH / fmean(times), 2.57 * stdev(parts) / fmean(parts) / sqrt(len(parts)))


@pytest.mark.parametrize("shape", [alike, heavy, sticky, with_slow_ones])
def test_a_run_that_stays_as_its_trial_saw_it_renews_nothing(shape: Shape) -> None:
    renewed = []
    for seed in range(200):
        random = Random(seed)
        trial = as_promised(shape(random, 300))
        pauses = {"pass": (500, 0.7)} if seed % 2 else {}
        renewed += learnt(Run(shape(random, 2400), pauses=pauses), promised=trial)
    assert renewed == []


def test_a_checkpoint_that_comes_more_seldom_than_the_window_is_long_renews_the_promise_once() -> None:
    [renewal] = learnt(Run(alike(Random(1), 6000), pauses={"checkpoint": (150, 3.0)}))
    because = renewal.because
    assert isinstance(because, RarePause) and (because.what, because.seen) == ("checkpoint", OFTEN)
    assert because.every_steps == pytest.approx(150, rel=0.15) and because.seconds == pytest.approx(3.0, rel=0.15)
    # Soon after the third, and as the run goes: 150 steps of 50 ms, and 3 s.
    assert 450 < renewal.after_steps < 520 and renewal.trial == 3
    assert renewal.samples_per_s_before == RATE
    assert renewal.samples_per_s == pytest.approx(150 * BATCH / (150 * STEP_S + 3.0), rel=0.05)
    # Between its pauses it is as fast as promised.
    assert renewal.steady_samples_per_s is None


def test_a_pause_that_the_trial_saw_or_that_is_not_felt_renews_nothing() -> None:
    run = Run(alike(Random(1), 3000), pauses={"checkpoint": (150, 3.0)})
    seen = Pause(what="checkpoint", seconds=3.0, seen=2, seldom=True, every_steps=150.0)
    assert learnt(run, Measurement(samples_per_s=RATE, pauses=(seen,))) == []
    assert learnt(Run(alike(Random(1), 3000), pauses={"checkpoint": (150, 0.1)})) == []
    # Seen once, it is promised once an epoch: news only where it comes more often.
    once = replace(seen, seen=1, every_steps=None)
    epochs = [Measurement(samples_per_s=RATE, pauses=(once,), samples_per_epoch=BATCH * steps) for steps in (150, 3000)]
    assert [len(learnt(run, trial)) for trial in epochs] == [0, 1]


def test_a_validation_and_the_checkpoint_behind_it_are_told_apart() -> None:
    pauses = {"validation": (200, 4.0), "checkpoint": (200, 2.0)}
    found = {one.because.what: one.because for one in learnt(Run(alike(Random(2), 4000), pauses=pauses))
             if isinstance(one.because, RarePause)}  # fmt: skip
    assert found.keys() == {"validation", "checkpoint"}
    assert found["validation"].seconds == pytest.approx(4.0, rel=0.15)
    assert found["checkpoint"].seconds == pytest.approx(2.0, rel=0.15)


def test_a_validation_at_the_end_of_each_epoch_costs_what_the_projection_has_not_paid() -> None:
    run = Run(alike(Random(2), 4000), pauses={"validation": (400, 4.0), "pass": (400, 1.0)})
    # An epoch of 400 steps takes 20 s, and its restart a second.
    trial = Measurement(samples_per_s=RATE, samples_per_epoch=400 * BATCH, projected=Projection(epoch_s=21.0))
    [renewal] = learnt(run, trial)
    assert isinstance(renewal.because, RarePause) and renewal.because.every_steps is None
    assert renewal.because.seconds == pytest.approx(4.0, rel=0.15)


@pytest.mark.parametrize(("every", "stop_s"), [(150, 1.5), (60, 2.0)])
def test_a_stop_that_nobody_counts_is_found_where_the_rate_departs(every: int, stop_s: float) -> None:
    [renewal] = learnt(Run(alike(Random(3), 5000), pauses={"stop": (every, stop_s)}))
    because = renewal.because
    assert isinstance(because, RarePause) and because.what == "stop"
    assert because.every_steps == pytest.approx(every, rel=0.2) and because.seconds == pytest.approx(stop_s, rel=0.2)
    truth = every * BATCH / (every * STEP_S + stop_s)
    assert renewal.steady_samples_per_s == pytest.approx(truth, rel=0.05)
    assert renewal.after_steps < 2000


def test_steps_that_are_slower_from_the_beginning_are_another_pace_with_its_side() -> None:
    slow = [1.3 * step_s for step_s in alike(Random(4), 4000)]
    [renewal] = learnt(Run(slow))
    assert isinstance(renewal.because, OtherPace) and renewal.because.side == "training"
    assert renewal.because.change == pytest.approx(0.32, abs=0.05) and not renewal.because.clocks
    # Waiting for its loader: the same, on the other side.
    [renewal] = learnt(Run(slow, waits=[0.3 / 1.3 * step_s for step_s in slow]))
    assert isinstance(renewal.because, OtherPace) and renewal.because.side == "loader"
    [renewal] = learnt(Run(slow), why=lambda seconds: "clocks")
    assert isinstance(renewal.because, OtherPace) and renewal.because.clocks


@pytest.mark.parametrize("cause", ["neighbour", "memory"])
def test_what_passes_by_itself_is_no_property_of_the_settings(cause: Cause) -> None:
    assert learnt(Run([1.5 * step_s for step_s in alike(Random(4), 4000)]), why=lambda seconds: cause) == []


def test_the_trials_own_doubts_are_the_reasons_where_they_fit() -> None:
    slow = [1.4 * step_s for step_s in alike(Random(5), 4000)]
    waits = [0.4 / 1.4 * step_s for step_s in slow]
    part = PartOfEpoch(order=Order.FILE_ORDER, fraction=0.02)
    [renewal] = learnt(Run(slow, waits=waits), Measurement(samples_per_s=RATE, doubts=(part,)))
    assert renewal.because == part
    storage = Measurement(samples_per_s=RATE, doubts=(FromStorage(waiting=0.7), part))
    [renewal] = learnt(Run(slow, waits=waits), storage)
    assert isinstance(renewal.because, FromStorage) and renewal.because.waiting == pytest.approx(0.29, abs=0.03)
    # The machine shows it, and the trial had no doubt.
    [renewal] = learnt(Run(slow, waits=waits), why=lambda seconds: "storage")
    assert isinstance(renewal.because, FromStorage)
    fast = [0.6 * step_s for step_s in alike(Random(5), 4000)]
    [renewal] = learnt(Run(fast), Measurement(samples_per_s=RATE, doubts=(CacheFills(attribute="kept"),)))
    assert renewal.because == CacheFills(attribute="kept") and renewal.samples_per_s > 1.5 * RATE


def test_a_run_that_slows_down_on_its_way_is_a_trend_and_promised_at_what_it_came_to() -> None:
    fast, slow = alike(Random(6), 1500), [1.5 * step_s for step_s in alike(Random(7), 20_000)]
    renewals = learnt(Run([*fast, *slow]))
    assert isinstance(renewals[0].because, Trend) and renewals[0].because.change > 0.2
    assert renewals[-1].samples_per_s == pytest.approx(RATE / 1.5, rel=0.08)
    # Judged when there is twice as much, and never at each look.
    assert len(renewals) <= 3


def test_a_rate_that_held_its_pauses_is_no_reason_to_call_a_run_faster() -> None:
    # A fifth of the trial's window was validation, and its rate has that in it.
    held = Pause(what="validation", seconds=1.0, seen=5, counted=True, time_fraction=0.2)
    trial = Measurement(samples_per_s=0.8 * RATE, pauses=(held,))
    assert learnt(Run(alike(Random(8), 4000)), trial, promise(0.8 * RATE)) == []
    [renewal] = learnt(Run(alike(Random(8), 4000)), replace(trial, pauses=()), promise(0.8 * RATE))
    assert isinstance(renewal.because, OtherPace) and renewal.because.change < -0.1


def test_while_somebody_had_stopped_it_nothing_is_learnt() -> None:
    learning = Learning(promise(), Measurement(samples_per_s=RATE), lambda seconds: "unknown")
    found = []
    for look in Run(alike(Random(3), 5000), pauses={"stop": (150, 4.0)}).looks():
        if look.steps % 150 < 40:
            learning.interruptions += 1
        found.append(learning.look(look))
    assert not any(found)
