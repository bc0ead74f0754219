"""A launch that steps down more than once, or is stopped after it has: nothing that ran is lost."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Callable

import pytest

from support.launches import Study, measured, without_accident
from vtune import api
from vtune.cli.launch_asked import asked_launch
from vtune.config.command_line import CommandLine
from vtune.domain.launch import LaunchEvent, LaunchResult
from vtune.domain.trial import TrialStatus
from vtune.launcher.plan import PlannedLaunch
from vtune.launcher.safer import go_on
from vtune.launcher.telling import LaunchProgress

Make = Callable[..., Study]


def planned(study: Study, trial: int, *, rescale: bool = False, step_down: bool = False) -> PlannedLaunch:
    asked, _ = asked_launch(
        None, CommandLine(study="demo"), study.paths.root.parent, best=False, trial=str(trial), resume=False,
        rescale=rescale, step_down=step_down, grace=None,
    )  # fmt: skip
    return asked


def events(study: Study) -> list[dict[str, str]]:
    return [json.loads(line) for line in study.of_launch().events.read_text().splitlines()]


@pytest.mark.slow
def test_ctrl_c_after_a_step_down_goes_on_with_the_settings_that_ran_and_all_that_was_typed(a_study: Make) -> None:
    study = a_study(
        measured(1, 60.0), measured(2, 80.0, workers=2), accident="lost_worker", at_step=15, step_s=0.05, steps=2000
    )
    started = study.start("--trial", "2", "--step-down", "--ram-limit", "20GiB", "--grace", "1m", "--json")
    study.wait_for_steps(40)
    started.send_signal(signal.SIGINT)
    stdout, stderr = started.communicate(timeout=30)
    assert started.returncode == 130, stderr
    told = json.loads(stdout)
    assert told["settings"] == {} and len(told["step_downs"]) == 1
    words = "vtune launch --study demo --ram-limit 20GiB --grace 1m --trial 1 --step-down --resume"
    assert told["go_on"] == words


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_second_step_down_goes_on_from_the_checkpoint_of_the_first_attempt(a_study: Make) -> None:
    # Each worker is two batches ahead: the first attempt is lost after step 10, the second before it has saved at 20.
    study = a_study(
        *(measured(workers, 50.0 + workers, workers=workers) for workers in (1, 2, 3)),
        accident="lost_worker", at_step=18, step_s=0.3, steps=40,
    )  # fmt: skip
    said = study.launch("--trial", "3", "--step-down", "--json", timeout=120)
    assert said.code == 0, said.stderr
    told = said.json
    first, second = told["step_downs"]
    assert 0 < first["resumed_from_step"] == second["resumed_from_step"] <= 10
    assert "no checkpoint was seen" not in said.stderr
    assert told["steps"] == second["resumed_from_step"] + 30
    assert dict(study.losses()) == dict(without_accident(study))


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_after_three_step_downs_it_ends_and_names_the_next(a_study: Make) -> None:
    study = a_study(
        *(measured(workers, 50.0 + workers, workers=workers) for workers in range(1, 7)),
        accident="lost_worker", at_step=12, step_s=0.05,
    )  # fmt: skip
    said = study.launch("--trial", "6", "--step-down", "--json", timeout=200)
    assert said.code == 5, said.stderr
    assert [down["trial"] for down in said.json["step_downs"]] == [5, 4, 3]
    assert "--trial 2 --step-down" in said.json["go_on"]
    # Each was lost before it had saved.
    assert said.json["go_on_note"] == "from its beginning: no checkpoint was seen"
    assert study.living() == {}


@pytest.mark.slow
def test_ctrl_c_between_two_attempts_keeps_what_ran(a_study: Make) -> None:
    study = a_study(measured(1, 60.0), measured(2, 80.0, workers=2), accident="lost_worker", at_step=8)

    def press(event: LaunchEvent | LaunchProgress) -> None:
        if isinstance(event, LaunchEvent) and event.kind == "step_down":
            raise KeyboardInterrupt

    result: LaunchResult = api.launch(planned(study, 2, step_down=True), notify=press)
    assert (result.status, result.ended) == ("stopped", TrialStatus.INTERRUPTED)
    assert result.next_command is not None and result.next_command.endswith("--trial 1 --step-down")
    # It was lost before its first checkpoint.
    assert result.next_note == "from its beginning: no checkpoint was seen"
    assert [record.status for record in study.records()] == 2 * [TrialStatus.CRASHED]
    assert [event["kind"] for event in events(study)] == ["started", "retry", "started", "step_down", "ended"]
    assert json.loads(study.of_launch().state.read_text())["status"] == "stopped"


@pytest.mark.slow
def test_a_training_that_took_the_locks_between_two_attempts_ends_the_launch_with_what_ran(a_study: Make) -> None:
    study = a_study(measured(1, 60.0), measured(2, 80.0, workers=2), accident="lost_worker", at_step=8)
    taken = []

    def take(event: LaunchEvent | LaunchProgress) -> None:
        if isinstance(event, LaunchEvent) and event.kind == "step_down":
            taken.append(os.open(study.paths.launches_lock, os.O_RDWR))
            fcntl.flock(taken[0], fcntl.LOCK_EX)

    result = api.launch(planned(study, 2, step_down=True), notify=take)
    os.close(taken[0])
    assert result.status == "failed" and "held by another run" in (result.detail or "")
    assert study.records()[0].status is TrialStatus.CRASHED
    assert events(study)[-1]["kind"] == "ended"


@pytest.mark.slow
def test_while_another_vtune_uses_the_study_the_journals_line_waits(a_study: Make) -> None:
    study, held = a_study(steps=12), []

    def use(event: LaunchEvent | LaunchProgress) -> None:
        if isinstance(event, LaunchEvent) and event.kind == "ended":
            held.append(os.open(study.paths.lock, os.O_RDWR | os.O_CREAT))
            fcntl.flock(held[0], fcntl.LOCK_EX)
        elif isinstance(event, LaunchEvent) and event.kind == "waiting":
            os.close(held[0])

    assert api.launch(planned(study, 1), notify=use).status == "completed"
    assert [event["kind"] for event in events(study)][-2:] == ["ended", "waiting"]
    assert [record.status for record in study.records()] == [TrialStatus.COMPLETED]


@pytest.mark.slow
def test_a_hang_before_the_first_batch_is_ended_after_the_start_up_time(a_study: Make) -> None:
    study = a_study(
        measured(1, 60.0), measured(2, 80.0, workers=2), accident="no_batch",
        window={"hang_time": 2, "startup_time": 5},
    )  # fmt: skip
    said = study.launch("--trial", "2", "--step-down", "--grace", "1s", "--json")
    assert said.code == 0, said.stderr
    [down] = said.json["step_downs"]
    assert "no batch within" in down["why"] and down["to"] == {}
    assert study.living() == {}


def test_the_length_of_an_epoch_is_that_of_the_iterations_that_run(a_study: Make) -> None:
    study = a_study(
        measured(1, 60.0), measured(2, 80.0, batch_size=4),
        training={"iterations_per_epoch": 100, "max_epochs": 2},
    )  # fmt: skip
    assert (planned(study, 2).epoch_steps, planned(study, 2).spec.promise.steps) == (100, 200)
    rescaled = planned(study, 2, rescale=True)
    assert (rescaled.epoch_steps, rescaled.spec.promise.steps) == (50, 100)
    # Whatever has won, it may be asked for.
    same = planned(study, 1, rescale=True)
    assert same.spec.promise.steps == 200 and "nothing to do: the effective batch stays" in same.notes[0]
    # What is shown is what runs.
    assert (rescaled.first.spec.command, str(rescaled.first.config)) == (rescaled.spec.command, rescaled.spec.config)


def test_what_was_launched_by_its_config_goes_on_by_it(a_study: Make) -> None:
    study = a_study(measured(1, 60.0), measured(2, 80.0, workers=2))
    config = str(study.folder / "demo.yaml")
    asked, _ = asked_launch(
        config, CommandLine(vram_limit="90%"), study.paths.root.parent, best=False, trial="2", resume=False,
        rescale=False, step_down=False, grace="5m", force=True,
    )  # fmt: skip
    settings = {"workers": 2, "prefetch_factor": 4}
    words = go_on(asked, asked.record, settings, saved=True, ran=asked.record).command
    assert f"launch --config {config} --vram-limit 90% --grace 5m --force" in words
    assert words.endswith("--trial 2 --set prefetch_factor=4 --resume")
