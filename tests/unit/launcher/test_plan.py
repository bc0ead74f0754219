"""What a launch promises: the trial's rate, over the steps of the run that is launched."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.studies import a_trial, write_study
from vtune.domain.experiment import Experiment, PlannedRun, Workload
from vtune.domain.launch import Length
from vtune.domain.record import Projection
from vtune.domain.trial import TrialStatus
from vtune.errors import UsageError
from vtune.journal.launch_files import write_launch
from vtune.launcher.plan import PlannedLaunch, plan_launch, promise_now, promise_of
from vtune.reporting.launch_words import dry_lines, plan_to_json
from vtune.reporting.study_report import find_report

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
    assert (promise.effective_batch, promise.samples_per_step, promise.steps) == (None, 16, 750)


def test_of_a_run_without_a_known_length_the_steps_are_unknown() -> None:
    assert promise_of(TRIAL, PlannedRun()).steps is None


def test_after_a_step_down_it_promises_what_its_trial_would_have_as_first_choice() -> None:
    slower = replace(TRIAL, trial=2, measurement=replace(TRIAL.measurement, samples_per_s=10.0,
                     samples_per_s_whole_run=4000 / 410, projected=Projection(run_s=410.0)))  # fmt: skip
    long = PlannedRun(epochs=100)
    assert promise_now(promise_of(TRIAL, long), slower) == promise_of(slower, long)
    # 400 s an epoch, and 10 s around all of them.
    assert promise_of(slower, long).run_s == 40_010.0


def test_a_trial_without_a_projection_promises_by_its_rate_of_whole_runs() -> None:
    bare = replace(TRIAL, measurement=replace(TRIAL.measurement, samples_per_s_whole_run=16.0, projected=Projection()))
    assert promise_now(promise_of(TRIAL, PlannedRun(epochs=3)), bare).run_s == 12000 / 16


def test_how_long_a_run_is_and_of_how_little_exit_code_0_is_its_end(tmp_path: Path) -> None:
    write_study(tmp_path / "results", TRIAL)
    report = find_report("demo", results=tmp_path / "results")
    experiment = Experiment(
        study="demo", workload=Workload(command=("python", "train.py"), cwd=tmp_path), resume=("--resume",),
        planned_run=PlannedRun(epochs=2),
    )  # fmt: skip
    assert plan_launch(experiment, report).spec.length == Length(steps=1000, least=900)
    # From a checkpoint that no launch has left.
    gone_on = plan_launch(experiment, report, resume=True).spec
    assert gone_on.length == Length(steps=1000, least=900, most_before=None) and gone_on.promise.steps is None


def test_what_a_launch_of_the_same_settings_came_to_is_told_and_corrects_no_promise(
    plan: Callable[..., PlannedLaunch],
) -> None:
    trial = replace(TRIAL, trial=1)
    ran = replace(
        TRIAL, trial=5, origin="launch", asked={}, reason="launch 1, the full run of trial 1",
        measurement=replace(TRIAL.measurement, samples_per_s=15.0, steady=True),
    )  # fmt: skip
    planned = plan(trial, ran)
    assert "launch 1 with these settings came to 15 samples/s, steady (-25.0%)" in planned.notes
    assert planned.spec.promise.samples_per_s == 20.0


def test_what_other_settings_came_to_is_not(plan: Callable[..., PlannedLaunch]) -> None:
    trial, others = replace(TRIAL, trial=1), {"workers": 2}
    ran = replace(TRIAL, trial=5, origin="launch", asked=others, measurement=replace(TRIAL.measurement, steady=True))
    assert not any("came to" in note for note in plan(trial, ran).notes)


def test_a_launch_is_told_and_kept_without_its_secrets(plan: Callable[..., PlannedLaunch], tmp_path: Path) -> None:
    planned = plan(a_trial(1, 20.0))
    command = ("python", "train.py", "--token", "s3cr3t-1")
    spec = replace(planned.spec, command=command, env={"SESSION": "s3cr3t-2", "OMP_NUM_THREADS": "2"})
    launch = planned.study.launch(planned.number)
    launch.root.mkdir(parents=True)
    write_launch(launch, spec)
    told = plan_to_json(spec, (), None)
    assert told["env"] == {"SESSION": "***", "OMP_NUM_THREADS": "***"}
    assert "s3cr3t" not in "\n".join(dry_lines(spec, (), None))
    assert "s3cr3t" not in launch.launch.read_text()
    kept = json.loads(launch.launch.read_text())
    assert kept["command"] == ["python", "train.py", "--token", "***"] and kept["env"] == told["env"]


@pytest.mark.parametrize("steady", [True, False])
def test_a_promise_is_called_steady_only_where_its_trial_showed_that(
    plan: Callable[..., PlannedLaunch], steady: bool
) -> None:
    planned = plan(replace(TRIAL, trial=1, measurement=replace(TRIAL.measurement, steady=steady)))
    assert planned.spec.promise.steady is steady
    [line] = [line for line in dry_lines(planned.spec, planned.notes, None) if line.startswith("promised")]
    assert ("not shown to be steady" in line) is not steady


def test_the_rate_of_settings_that_took_no_effect_is_promised_to_nobody(tmp_path: Path) -> None:
    invalid = replace(TRIAL, trial=2, status=TrialStatus.INVALID, detail="asked for workers=4, the loader ran with 0")
    write_study(tmp_path / "results", replace(TRIAL, trial=1), invalid)
    report = find_report("demo", results=tmp_path / "results")
    experiment = Experiment(study="demo", workload=Workload(command=("python", "train.py"), cwd=tmp_path))
    with pytest.raises(UsageError, match="ran with 0") as raised:
        plan_launch(experiment, report, trial=2)
    assert raised.value.hint
