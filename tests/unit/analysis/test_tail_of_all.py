"""A trial's luck with rare slow batches is no gain of those that came after it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.choices import choose
from support.studies import a_trial
from vtune.analysis.schedule import Training, step_ends
from vtune.analysis.tail_of_all import told_by_all
from vtune.domain.record import TrainingCost, TrialRecord, WorkerCost

USUAL_S, TIMES, OWN_S, BATCHES = 0.0125, 15.0, 0.004, 120


def long_run(workers: int, prefetch: int, share: float) -> float:
    """Batches a second, by the schedule itself."""
    rng = np.random.default_rng(1)
    load = np.where(rng.random((8000, 16)) < share, TIMES * USUAL_S, USUAL_S)
    nothing = np.zeros_like(load)
    training = Training(own=nothing + OWN_S, launch=None, delivery_waited=nothing, delivery_ready=nothing)
    return float((len(load) / step_ends(load, training, workers=workers, prefetch=prefetch)[-1]).mean())


def trial(number: int, rate: float, slow: int, workers: int = 2, prefetch: int = 2, **fields: Any) -> TrialRecord:
    loads = np.append(np.full(BATCHES - slow, USUAL_S), np.full(slow, TIMES * USUAL_S))
    settings = {"workers": workers, "prefetch_factor": prefetch}
    measured = {
        "rate_from": "twin",
        "effective_settings": {**settings, "batch_size": 1},
        "worker_cost": WorkerCost(
            batch_s=float(loads.mean()), cpu_fraction=0.01, batches=BATCHES, delivering=workers, median_s=USUAL_S,
            cv=float(loads.std(ddof=1) / loads.mean()), slow=(TIMES,) * slow, dispatch_s=0.0,
        ),
        "training_cost": TrainingCost(batch_s=OWN_S, delivery_s=0.0),
        **fields.pop("measured", {}),
    }  # fmt: skip
    asked = {} if number == 1 else settings
    return a_trial(number, rate, ci=0.2, batch=1, asked=asked, workers=workers, measured=measured, **fields)


def a_study(*more: int) -> list[TrialRecord]:
    """The first trial saw twice the slow batches that the later ones saw, each told by what was known by then."""
    first = trial(1, long_run(2, 2, 6.5 / 121), 6)
    return [first, *(trial(at, long_run(6, 8, 0.015), slow, 6, 8) for at, slow in enumerate(more, 2))]


def test_a_first_trial_that_saw_many_slow_batches_is_told_again_by_those_of_all() -> None:
    study = a_study(1, 1, 2, 0, 1, 1)
    share = (12 + 0.5) / (7 * BATCHES + 1)
    again = told_by_all(study)[1].measurement
    assert again.samples_per_s == pytest.approx(long_run(2, 2, share), rel=0.05)
    then = study[0].measurement
    assert then.samples_per_s is not None and again.samples_per_s is not None
    assert again.samples_per_s > 1.25 * then.samples_per_s
    # The whole run is faster by its steps and by nothing else.
    was, now = then.projected.run_s, again.projected.run_s
    assert was is not None and now is not None and now < was
    assert then.samples_per_s_whole_run is not None and again.samples_per_s_whole_run is not None
    assert again.samples_per_s_whole_run * now == pytest.approx(then.samples_per_s_whole_run * was)


def test_the_speedup_over_an_unlucky_baseline_is_that_of_long_runs() -> None:
    study = a_study(1, 1, 2, 0, 1, 1)
    found = choose(study)
    share = (12 + 0.5) / (7 * BATCHES + 1)
    true = long_run(6, 8, share) / long_run(2, 2, share)
    rates = [one.measurement.samples_per_s or 0.0 for one in study]
    assert rates[1] / rates[0] > 1.25 * true
    assert found.speedup is not None and found.speedup.value == pytest.approx(true, rel=0.06)
    (told,) = [one for one in found.remarks if "slow batches of all trials" in one]
    assert f"(12 of {7 * BATCHES}) trial 1 comes to" in told


def test_a_first_trial_that_saw_none_is_told_again_as_well() -> None:
    lucky = [trial(1, long_run(2, 2, 0.0), 0), *a_study(2, 3, 2, 3)[1:]]
    again = told_by_all(lucky)[1].measurement.samples_per_s
    assert again is not None and again < 0.85 * long_run(2, 2, 0.0)


def test_without_slow_batches_or_with_other_sizes_nothing_is_told_again() -> None:
    none = [trial(1, 100.0, 0), trial(2, 200.0, 0, 6, 8)]
    assert told_by_all(none) == {}
    first, second = a_study(0)
    other = replace(
        second,
        measurement=replace(second.measurement, effective_settings={"workers": 6, "batch_size": 2}),
    )
    assert told_by_all([first, other]) == {}
    # Nobody replayed it.
    means = replace(first, measurement=replace(first.measurement, rate_from="batch_means"))
    assert 1 not in told_by_all([means, *a_study(0, 0)[1:]])
