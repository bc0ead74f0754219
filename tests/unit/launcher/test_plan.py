"""What a launch promises: the trial's rate, over the steps of the run that is launched."""

from __future__ import annotations

from dataclasses import replace

from support.studies import a_trial
from vtune.domain.experiment import PlannedRun
from vtune.domain.record import Projection
from vtune.launcher.plan import promise_of

TRIAL = a_trial(4, 20.0, batch=8, measured={"samples_per_epoch": 4000})


def test_an_epoch_bounded_by_data_has_as_many_steps_as_batches_of_it() -> None:
    promise = promise_of(TRIAL, PlannedRun(epochs=3))
    assert (promise.trial, promise.samples_per_s, promise.effective_batch, promise.steps) == (4, 20.0, 8, 1500)
    half = replace(TRIAL, measurement=replace(TRIAL.measurement, samples_per_epoch=4001))
    assert promise_of(half, PlannedRun(epochs=1)).steps == 501


def test_an_epoch_bounded_by_iterations_has_as_many_steps_whatever_its_batch() -> None:
    assert promise_of(TRIAL, PlannedRun(epochs=3, iterations_per_epoch=90)).steps == 270


def test_iterations_that_see_a_larger_batch_take_as_much_longer() -> None:
    # Twice the batch: the projection is that of the run's 540 × 4 samples before, 108 s, and 2 s around them.
    trial = replace(TRIAL, measurement=replace(TRIAL.measurement, samples_per_s_whole_run=2160 / 110,
                    projected=Projection(run_s=110.0)))  # fmt: skip
    kept = promise_of(trial, PlannedRun(epochs=3, iterations_per_epoch=180))
    assert (kept.steps, kept.run_s) == (540, 218.0)
    assert kept.samples_per_s_whole_run == 540 * 8 / 218
    rescaled = promise_of(trial, PlannedRun(epochs=3, iterations_per_epoch=90))
    assert rescaled.run_s == 110.0 and rescaled.samples_per_s_whole_run == 2160 / 110


def test_a_run_that_was_made_longer_since_its_trial_is_promised_for_as_long() -> None:
    # Three epochs of 4000 samples in 610 s, of which 600 are steps.
    trial = replace(TRIAL, measurement=replace(TRIAL.measurement, samples_per_s_whole_run=12000 / 610,
                    projected=Projection(run_s=610.0)))  # fmt: skip
    assert promise_of(trial, PlannedRun(epochs=3)).run_s == 610.0
    longer = promise_of(trial, PlannedRun(epochs=6))
    assert longer.run_s == 1210.0 and longer.samples_per_s_whole_run == 24000 / 1210


def test_what_is_accumulated_beside_the_trials_settings_makes_fewer_and_larger_steps() -> None:
    promise = promise_of(TRIAL, PlannedRun(epochs=3), batch_scale=2.0)
    assert (promise.effective_batch, promise.steps) == (16, 750)


def test_of_a_run_without_a_known_length_the_steps_are_unknown() -> None:
    assert promise_of(TRIAL, PlannedRun()).steps is None
