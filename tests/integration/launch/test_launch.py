"""`vtune launch` of a real training, to its end or to whatever comes before it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import yaml

from support.launches import Study, measured, without_accident
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
    study = a_study(measured(1, 60.0), measured(2, 80.0, workers=2), steps=120)
    said = study.launch("--trial", "2", "--json")
    assert said.code == 0, said.stderr
    told = said.json
    assert (told["status"], told["launch"], told["settings"], told["exit_code"]) == ("completed", 1, {"workers": 2}, 0)
    assert told["promised_samples_per_s"] == 80.0
    assert told["steps"] == 120 and told["step_downs"] == []
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


def test_a_run_that_is_only_slower_than_promised_is_told_and_never_stopped(a_study: Make) -> None:
    # Long enough for two windows between checkpoints that are felt on a loaded machine.
    study = a_study(measured(1, 900.0), steps=300)
    said = study.launch("--json")
    assert said.code == 0 and said.json["status"] == "completed", said.stderr
    told = [json.loads(line) for line in study.of_launch().events.read_text().splitlines()]
    [slow] = [event for event in told if event["kind"] == "slow"]
    assert "slower than promised" in slow["text"] and "instead of 900" in slow["text"]
    assert [event["kind"] for event in told if event["kind"] != "slow"] == ["started", "ended"]


def test_a_dry_run_prints_command_and_config_and_starts_nothing(a_study: Make) -> None:
    study = a_study()
    said = study.launch("--dry-run")
    assert said.code == 0, said.stderr
    assert "train.py --config" in said.stdout and "launches/0001/attempts/01/config.yaml" in said.stdout
    assert not study.paths.launches.exists() and not (study.folder / "out").exists()


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


def test_a_full_disk_at_the_checkpoint_is_a_clear_stop_and_no_reason_for_other_settings(a_study: Make) -> None:
    study = a_study(measured(1, 60.0), measured(2, 80.0, workers=2), accident="full_disk", at_step=20)
    said = study.launch("--trial", "2", "--step-down", "--json")
    assert said.code == 5, said.stderr
    told = said.json
    assert told["status"] == "failed" and told["step_downs"] == []
    assert "a disk that it writes to is full" in told["detail"] and "out" in told["detail"]
    assert study.living() == {}


def test_a_killed_worker_is_a_clear_stop_that_names_the_safer_setting(a_study: Make) -> None:
    study = a_study(measured(1, 60.0), measured(2, 80.0, workers=2), accident="lost_worker", at_step=25)
    said = study.launch("--trial", "2", "--json")
    assert said.code == 5, said.stderr
    told = said.json
    assert told["status"] == "failed" and "--trial 1" in told["go_on"] and "--resume" in told["go_on"]
    assert study.living() == {}


def test_a_killed_worker_steps_down_to_fewer_and_the_losses_go_on_exactly(a_study: Make) -> None:
    study = a_study(measured(1, 60.0), measured(2, 80.0, workers=2), accident="lost_worker", at_step=25, step_s=0.15)
    said = study.launch("--trial", "2", "--step-down", "--json")
    assert said.code == 0, said.stderr
    told = said.json
    [down] = told["step_downs"]
    assert (down["from"], down["to"], down["trial"]) == ({"workers": 2}, {}, 1)
    # It saves every tenth step; the counters are read each second, and tell what it had done at least.
    assert 0 < down["resumed_from_step"] <= 20
    assert told["status"] == "completed"
    whole(study, dict(without_accident(study)))
    assert [one.status for one in study.records()] == [TrialStatus.CRASHED, TrialStatus.COMPLETED]


def test_a_hang_is_ended_and_steps_down(a_study: Make) -> None:
    study = a_study(
        measured(1, 60.0), measured(2, 80.0, workers=2), accident="hang", at_step=25, window={"hang_time": 4}
    )
    said = study.launch("--trial", "2", "--step-down", "--json")
    assert said.code == 0, said.stderr
    [down] = said.json["step_downs"]
    assert "no step" in down["why"] and down["to"] == {}
    whole(study, dict(without_accident(study)))
    assert study.living() == {}


def test_a_device_out_of_memory_goes_on_with_a_smaller_batch_and_the_same_effective_one(a_study: Make) -> None:
    study = a_study(
        measured(1, 60.0), measured(2, 80.0, batch_size=4), accident="device", at_step=25,
    )  # fmt: skip
    said = study.launch("--trial", "2", "--step-down", "--json")
    assert said.code == 0, said.stderr
    [down] = said.json["step_downs"]
    assert down["to"] == {"accumulate_steps": 2}
    assert said.json["status"] == "completed" and len(curve(study)) == 60


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


def test_stale_or_changed_is_refused_with_what_changed_and_forced(a_study: Make) -> None:
    study = a_study()
    machine: dict[str, Any] = json.loads(study.paths.machine.read_text())
    study.paths.machine.write_text(json.dumps({**machine, "cpu_model": "another"}))
    said = study.launch()
    assert said.code == 2 and "cpu_model" in said.stderr and "--force" in said.stderr
    assert not study.paths.launches.exists()
