"""The effective batch of a full run, before and after: as measured, else by the settings, and said to be so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.studies import a_trial
from vtune.analysis.another_batch import AnotherBatch
from vtune.domain.consumed import Consumed, NoBatch
from vtune.domain.experiment import Experiment, Workload
from vtune.domain.record import TrialRecord
from vtune.launcher.batch_of_run import batch_of_run

EXPERIMENT = Experiment(study="demo", workload=Workload(command=("python", "train.py"), cwd=Path()))


def used(trial: int, batch: int, step: int, no_batch: NoBatch | None = None, **asked: Any) -> TrialRecord:
    """A trial whose steps used so many samples each."""
    consumed = Consumed(by_step=((float(step), 50),), mean=step, no_batch=no_batch)
    record = a_trial(trial, 20.0, batch=batch, asked=asked)
    measured = replace(
        record.measurement, effective_batch=None if no_batch else step, consumed=consumed, effective_settings={}
    )
    return replace(record, measurement=measured, settings={"batch_size": batch})


OWN = used(1, 4, 4)


def test_a_trial_with_a_larger_batch_has_the_measured_ratio() -> None:
    larger = used(2, 8, 8, batch_size=8)
    found = batch_of_run(larger, {}, EXPERIMENT, [OWN, larger], OWN.measurement)
    assert (found.before, found.effective, found.factor, found.beside) == (4, 8, 2.0, 1.0)
    assert found.another == AnotherBatch(now=8.0, then=4.0)


def test_a_batch_that_is_set_for_the_launch_alone_goes_by_its_settings_and_is_not_called_measured() -> None:
    found = batch_of_run(OWN, {"batch_size": 16}, EXPERIMENT, [OWN], OWN.measurement)
    assert (found.before, found.effective, found.factor, found.beside) == (4, None, 4.0, 4.0)
    assert found.another == AnotherBatch(now=16.0, then=4.0, measured=False)


def test_a_batch_that_another_trial_has_measured_is_that_of_the_launch() -> None:
    # The script keeps its own global batch: twice the batch, half of the accumulation.
    own, larger = used(1, 16, 64), used(2, 32, 64, batch_size=32)
    found = batch_of_run(own, {"batch_size": 32}, EXPERIMENT, [own, larger], own.measurement)
    assert (found.before, found.effective, found.factor, found.beside) == (64, 64, 1.0, 1.0)
    assert found.another is None


@pytest.mark.parametrize("extra", [{}, {"workers": 4}])
def test_what_leaves_the_batch_alone_leaves_the_training_alone(extra: dict[str, Any]) -> None:
    found = batch_of_run(OWN, extra, EXPERIMENT, [OWN], OWN.measurement)
    assert found.another is None and (found.effective, found.factor) == (4, 1.0)


def test_without_the_users_own_batch_nothing_is_said_of_it() -> None:
    larger = used(2, 8, 8, batch_size=8)
    found = batch_of_run(larger, {}, EXPERIMENT, [larger], None)
    assert (found.another, found.before, found.effective) == (None, None, 8)


def test_steps_of_different_sizes_are_told_in_the_mean() -> None:
    own = used(1, 4, 30, NoBatch.VARIES)
    found = batch_of_run(own, {"batch_size": 8}, EXPERIMENT, [own], own.measurement)
    assert (found.before, found.effective) == (None, None)
    assert found.another == AnotherBatch(now=60.0, then=30, exact=False, measured=False)
