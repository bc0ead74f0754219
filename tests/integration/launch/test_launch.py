"""`vtune launch` of a real training, to its end or to whatever comes before it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import yaml

from support.launches import Study, measured, without_accident
from vtune.domain.numbers import seconds
from vtune.domain.trial import TrialStatus

Make = Callable[..., Study]


def curve(study: Study) -> dict[int, float]:
    """The last word on each step: what is repeated after a resume counts as the run has it in the end."""
    return dict(study.losses())


def whole(study: Study, expected: dict[int, float]) -> None:
    assert curve(study) == expected
    # Also where steps were run again: the same loss.
    assert all(loss == expected[step] for step, loss in study.losses())


def test_it_runs_to_its_end_as_by_hand_and_tells_achieved_against_promised(a_study: Make) -> None:
    # On a busy machine any save may be felt, and then its second is in no rate.
    study = a_study(measured(1, 60.0), measured(2, 80.0, workers=2), steps=120, save_every=1000)
    said = study.launch("--trial", "2", "--json")
    assert said.code == 0, said.stderr
    told = said.json
    assert (told["status"], told["launch"], told["settings"], told["exit_code"]) == ("completed", 1, {"workers": 2}, 0)
    assert told["promised_samples_per_s"] == 80.0
    assert told["steps"] == 120 and told["step_downs"] == []
    assert told["promised_run_s"] == 1600.0 and told["run_s"] == told["seconds"]
    assert f"whole run: {seconds(told['run_s'])}, 26.7 min promised" in said.stderr
    # Two samples a step, and 20 ms or more of sleep in it.
    assert 2 < told["achieved_samples_per_s"] <= 100
    whole(study, dict(without_accident(study)))
    launch = study.of_launch()
    config = yaml.safe_load((launch.attempt(1).root / "config.yaml").read_text())
    assert config["workers"] == 2 and "vtune" not in config
    assert (launch.attempt(1).stdout).read_text() == "done\n"
    [record] = study.records()
    assert (record.status, record.measurement.steps_measured, record.trial) == (TrialStatus.COMPLETED, 120, 3)
    assert study.living() == {}


@pytest.mark.slow
def test_a_run_that_is_only_slower_than_promised_is_told_and_never_stopped(a_study: Make) -> None:
    study = a_study(measured(1, 900.0), steps=300, save_every=1000)
    said = study.launch("--json")
    assert said.code == 0 and said.json["status"] == "completed", said.stderr
    told = [json.loads(line) for line in study.of_launch().events.read_text().splitlines()]
    [slow] = [event for event in told if event["kind"] == "slow"]
    assert "slower than promised" in slow["text"] and "instead of 900" in slow["text"]
    assert [event["kind"] for event in told if event["kind"] != "slow"] == ["started", "ended"]


def test_a_dry_run_prints_command_and_config_and_starts_nothing(a_study: Make) -> None:
    study = a_study(measured(1, 60.0), measured(2, 80.0, workers=2, batch_size=4), train_iterations_per_epoch=40)
    said = study.launch("--trial", "2", "--dry-run")
    assert said.code == 0, said.stderr
    assert "train.py --config" in said.stdout and "launches/0001/attempts/01/config.yaml" in said.stdout
    # That file is not there yet: what it will hold is told.
    assert "written when it is launched" in said.stdout
    assert "  -workers: 1\n" in said.stdout and "  +workers: 2\n" in said.stdout
    assert not study.paths.launches.exists() and not (study.folder / "out").exists()
    told = study.launch("--trial", "2", "--rescale-iterations", "--dry-run", "--json").json
    assert "\n-train_iterations_per_epoch: 40\n+train_iterations_per_epoch: 20\n" in told["config_diff"]
    assert told["exit_code"] == 0


def test_a_dry_run_that_would_be_refused_shows_the_plan_and_ends_as_the_launch_would(a_study: Make) -> None:
    study = a_study()
    machine: dict[str, Any] = json.loads(study.paths.machine.read_text())
    study.paths.machine.write_text(json.dumps({**machine, "cpu_model": "another"}))
    said = study.launch("--dry-run")
    assert said.code == 2 and "train.py --config" in said.stdout
    assert "error: trial 1 no longer stands" in said.stderr and "hint:" in said.stderr
    as_json = study.launch("--dry-run", "--json")
    told = as_json.json
    assert as_json.code == told["exit_code"] == 2 and "cpu_model" in told["error"] and "--force" in told["hint"]
    assert sorted(told) == ["error", "exit_code", "hint"]


@pytest.mark.slow
def test_ctrl_c_lets_it_save_and_the_command_that_is_told_goes_on_exactly(a_study: Make) -> None:
    study = a_study(steps=200)
    started = study.start("--json")
    study.wait_for_steps(15)
    started.send_signal(signal.SIGINT)
    stdout, stderr = started.communicate(timeout=30)
    assert started.returncode == 130, stderr
    told = json.loads(stdout)
    assert told["status"] == "stopped" and "--resume" in told["go_on"]
    assert "saved after step" in study.of_launch().attempt(1).stdout.read_text()
    assert study.living() == {}
    said = study.launch(*told["go_on"].split()[4:])
    assert said.code == 0, said.stderr
    whole(study, dict(without_accident(study)))
    # Nothing was run twice: it went on where it had saved.
    assert len(study.losses()) == 200


@pytest.mark.slow
def test_a_training_that_somebody_ends_early_is_no_completed_run_although_it_left_with_0(a_study: Make) -> None:
    study = a_study(steps=2000, leaves_with=0, run={"epochs": 1, "iterations_per_epoch": 2000})
    started = study.start("--json")
    study.wait_for_steps(15)
    os.kill(study.main_pid(), signal.SIGTERM)
    stdout, stderr = started.communicate(timeout=30)
    told = json.loads(stdout)
    assert (told["status"], told["ended"], told["exit_code"]) == ("stopped", "completed", 0), stderr
    assert f"after {told['steps']} of 2000 steps" in told["detail"] and "--resume" in told["go_on"]
    assert started.returncode == 0 and "launch 1 stopped" in stderr


@pytest.mark.slow
def test_a_full_disk_at_the_checkpoint_is_a_clear_stop_and_no_reason_for_other_settings(a_study: Make) -> None:
    study = a_study(measured(1, 60.0), measured(2, 80.0, workers=2), accident="full_disk", at_step=20)
    said = study.launch("--trial", "2", "--step-down", "--json")
    assert said.code == 5, said.stderr
    told = said.json
    assert told["status"] == "failed" and told["step_downs"] == []
    assert "a disk that it writes to is full" in told["detail"] and "out" in told["detail"]
    assert study.living() == {}


@pytest.mark.slow
def test_a_killed_worker_is_a_clear_stop_that_names_the_same_settings_once_more(a_study: Make) -> None:
    study = a_study(measured(1, 60.0), measured(2, 80.0, workers=2), accident="lost_worker", at_step=25)
    said = study.launch("--trial", "2", "--json")
    assert said.code == 5, said.stderr
    told = said.json
    assert told["status"] == "failed" and told["go_on"].endswith("--trial 2 --resume")
    again = "if a worker is lost again, --trial 1 has fewer, 1.3 times slower than what ran"
    assert told["go_on_note"] == again
    assert study.living() == {}


@pytest.mark.slow
def test_a_worker_that_is_killed_twice_steps_down_to_fewer_and_the_losses_go_on_exactly(a_study: Make) -> None:
    study = a_study(measured(1, 60.0), measured(2, 80.0, workers=2), accident="lost_worker", at_step=25, step_s=0.15)
    said = study.launch("--trial", "2", "--step-down", "--json")
    assert said.code == 0, said.stderr
    told = said.json
    [down] = told["step_downs"]
    assert (down["from"], down["to"], down["trial"]) == ({"workers": 2}, {}, 1)
    # Once more with the same settings first: the first loss may have been somebody's signal.
    [retry] = told["retries"]
    assert "no sign of memory" in retry["why"] and 0 < retry["resumed_from_step"] <= 20
    kinds = [json.loads(line)["kind"] for line in study.of_launch().events.read_text().splitlines()]
    assert kinds == ["started", "retry", "started", "step_down", "started", "ended"]
    assert "the current ones; 1.3 times slower than what ran" in said.stderr
    # It saves every tenth step; the counters are read each second, and tell what it had done at least.
    assert 0 < down["resumed_from_step"] <= 20
    assert told["status"] == "completed"
    # Held against what ran in the end.
    assert (told["trial"], told["settings"], told["promised_samples_per_s"]) == (1, {}, 60.0)
    assert json.loads(study.of_launch().state.read_text())["promised_samples_per_s"] == 60.0
    whole(study, dict(without_accident(study)))
    assert [one.status for one in study.records()] == [*2 * [TrialStatus.CRASHED], TrialStatus.COMPLETED]


@pytest.mark.slow
def test_without_its_counters_a_launch_tells_no_number(a_study: Make) -> None:
    study = a_study(steps=150, run={"epochs": 1, "iterations_per_epoch": 150})
    started = study.start("--json")
    study.wait_for_steps(60)
    shutil.rmtree(study.folder / "results")
    stdout, stderr = started.communicate(timeout=30)
    told = json.loads(stdout)
    assert (told["status"], told["steps"], told["achieved_samples_per_s"]) == ("completed", None, None), stderr
    assert "its counters are gone" in told["detail"] and "its steps unknown" in stderr
    # A slow start is told as step 0; no later line falls back to it.
    counted = [int(step) for step in re.findall(r"step (\d+) of 150", stderr)]
    assert "after 0 steps" not in stderr and counted == sorted(counted)


@pytest.mark.slow
def test_a_hang_is_ended_and_steps_down(a_study: Make) -> None:
    study = a_study(
        measured(1, 60.0), measured(2, 80.0, workers=2), accident="hang", at_step=25, window={"hang_time": 4}
    )
    said = study.launch("--trial", "2", "--step-down", "--json")
    assert said.code == 0, said.stderr
    [down] = said.json["step_downs"]
    assert "no step" in down["why"] and "waiting for a batch of its loader" in down["why"] and down["to"] == {}
    # Told before it is one, instead of a rate that is long past.
    assert "with nobody of it at work, a hang is called after" in said.stderr
    whole(study, dict(without_accident(study)))
    assert study.living() == {}


@pytest.mark.slow
def test_a_hang_in_the_main_process_itself_names_the_line_and_advises_no_fewer_workers(a_study: Make) -> None:
    study = a_study(
        measured(1, 60.0), measured(2, 80.0, workers=2), accident="hang_itself", at_step=25, window={"hang_time": 4}
    )
    told = study.launch("--trial", "2", "--step-down", "--json").json
    assert told["status"] == "stopped" and told["ended"] == "hung" and told["step_downs"] == []
    assert "train.py:" in told["detail"] and "sleeping" in told["detail"] and told["go_on"] is None


@pytest.mark.slow
def test_a_training_that_somebody_stops_for_a_while_is_no_hang_and_goes_on(a_study: Make) -> None:
    study = a_study(measured(1, 30.0), steps=120, window={"hang_time": 3})
    started = study.start("--json")
    study.wait_for_steps(60)
    pid = study.main_pid()
    os.kill(pid, signal.SIGSTOP)
    time.sleep(7.0)
    os.kill(pid, signal.SIGCONT)
    stdout, stderr = started.communicate(timeout=30)
    assert json.loads(stdout)["status"] == "completed", stderr
    kinds = [json.loads(line)["kind"] for line in study.of_launch().events.read_text().splitlines()]
    assert kinds == ["started", "paused", "continued", "ended"]
    assert f"kill -CONT {pid}" in stderr


@pytest.mark.slow
def test_what_is_stopped_is_let_go_on_where_it_is_to_save(a_study: Make) -> None:
    study = a_study(steps=2000)
    started = study.start("--json")
    study.wait_for_steps(15)
    for pid in study.living().keys() - {study.supervisor_pid()}:
        os.kill(pid, signal.SIGSTOP)
    started.send_signal(signal.SIGINT)
    _, stderr = started.communicate(timeout=30)
    assert started.returncode == 130, stderr
    assert "saved after step" in study.of_launch().attempt(1).stdout.read_text()


@pytest.mark.slow
def test_a_device_out_of_memory_goes_on_with_a_smaller_batch_and_the_same_effective_one(a_study: Make) -> None:
    study = a_study(
        measured(1, 60.0), measured(2, 80.0, batch_size=4), accident="device", at_step=25,
    )  # fmt: skip
    said = study.launch("--trial", "2", "--step-down", "--json")
    assert said.code == 0, said.stderr
    [down] = said.json["step_downs"]
    assert down["to"] == {"accumulate_steps": 2}
    assert said.json["status"] == "completed"
    uninterrupted = dict(without_accident(study, batch_size=4))
    # Two batches of 2 instead of one of 4: the same sums in another order, which differ by their rounding alone.
    assert curve(study) == pytest.approx(uninterrupted, rel=1e-4)
    assert all(loss == pytest.approx(uninterrupted[step], rel=1e-4) for step, loss in study.losses())
    assert sum(loss == uninterrupted[step] for step, loss in study.losses()) >= 25


@pytest.mark.slow
def test_growing_memory_is_foreseen_and_steps_down_before_the_limit(a_study: Make) -> None:
    study = a_study(
        measured(1, 60.0), measured(2, 80.0, workers=2), accident="leak", steps=300, step_s=0.01, load_s=0.001,
    )  # fmt: skip
    said = study.launch("--trial", "2", "--step-down", "--ram-limit", "1100MiB", "--json", timeout=100)
    assert said.code == 0, said.stderr
    [down] = said.json["step_downs"]
    assert "RAM grows by" in down["why"]
    outcome = json.loads(study.of_launch().attempt(1).outcome.read_text())
    assert outcome["ended_by"] == "limit" and outcome["over"] is None
    whole(study, dict(without_accident(study)))


@pytest.mark.slow
@pytest.mark.parametrize("before", [{}, {"jump_at_step": 80}], ids=["quiet", "validation"])
def test_a_leak_that_begins_late_is_asked_to_save_and_does_so_before_the_limit(
    a_study: Make, before: dict[str, int]
) -> None:
    # 150 steps of a tenth of a second, then 40 MB a second.
    study = a_study(
        measured(2, 80.0, workers=2), accident="leak", steps=3000, step_s=0.01, load_s=0.001, quiet_steps=150,
        save_every=10_000, **before,
    )  # fmt: skip
    said = study.launch("--trial", "2", "--ram-limit", "1300MiB", "--json", timeout=110)
    outcome = json.loads(study.of_launch().attempt(1).outcome.read_text())
    assert (outcome["ended_by"], outcome["over"], outcome["exit_code"]) == ("limit", None, 143)
    assert said.json["status"] == "stopped"
    # It saves at no other time.
    saved = torch.load(study.folder / "out" / "last.pt")
    assert saved["done"] > 150 and saved["done"] == len(study.losses())


def test_stale_or_changed_is_refused_with_what_changed_and_forced(a_study: Make) -> None:
    study = a_study()
    machine: dict[str, Any] = json.loads(study.paths.machine.read_text())
    study.paths.machine.write_text(json.dumps({**machine, "cpu_model": "another"}))
    said = study.launch()
    assert said.code == 2 and "cpu_model" in said.stderr and "--force" in said.stderr
    assert not study.paths.launches.exists()
