from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vtune.config.output import redirected_output, resumes_by, tracker_env
from vtune.domain.experiment import Workload


def workload(
    command: str = "python t.py --config {config}", config: dict[str, Any] | None = None, **rest: Any
) -> Workload:
    return Workload(command=tuple(command.split()), config=config, **{"cwd": Path("/nowhere"), **rest})


FOLDER = Path("/results/s/trials/0001")
OUT = "/results/s/trials/0001/output"


@pytest.mark.parametrize(
    "key", ["output_dir", "out_dir", "log_dir", "logdir", "save_dir", "work_dir", "default_root_dir"]
)
def test_a_known_output_key_points_into_the_trial(key: str) -> None:
    assert redirected_output(workload(config={key: "runs/x"}), FOLDER).changes == {(key,): OUT}
    assert redirected_output(workload(config={"training": {key: "runs/x"}}), FOLDER).changes == {("training", key): OUT}


def test_folders_inside_another_output_folder_stay_inside_it() -> None:
    config = {"output_dir": "runs/x", "training": {"checkpoint_dir": "runs/x/ckpt"}, "logging": {"dir": "logs"}}
    done = redirected_output(workload(config=config), FOLDER)
    assert done.changes == {
        ("output_dir",): OUT,
        ("training", "checkpoint_dir"): f"{OUT}/ckpt",
        ("logging", "dir"): f"{OUT}/dir",
    }
    assert done.notes[0] == "output_dir points into the trial's folder instead of runs/x"


@pytest.mark.parametrize(
    "config",
    [
        {"resume": "runs/x/last.pt", "ckpt_path": "a.ckpt", "data_root": "/data", "dir": "x", "model_dir": "m"},
        {"data": {"output_dir": "prepared"}, "preprocess": {"save_dir": "p"}},
        {"output_dir": None, "log_dir": "", "save_dir": 3, "work_dir": "s3://bucket/x"},
        {"a": {"b": {"output_dir": "deep"}}},
        {"checkpoint_dir": "ckpt", "resume": True},
        {"training": {"checkpoint_dir": "ckpt", "auto_resume": True}},
    ],
)
def test_what_may_be_an_input_is_left_alone(config: dict[str, Any]) -> None:
    assert redirected_output(workload(config=config), FOLDER).changes == {}


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("--output-dir runs/x", f"--output-dir {OUT}"),
        ("--output_dir=runs/x", f"--output_dir={OUT}"),
        ("--logdir runs", f"--logdir {OUT}"),
        ("--trainer.default_root_dir=runs", f"--trainer.default_root_dir={OUT}"),
        ("hydra.run.dir=outputs/x", f"hydra.run.dir={OUT}"),
        ("--save-dir a --log-dir a/logs", f"--save-dir {OUT} --log-dir {OUT}/logs"),
        ("--resume last.pt --data-root /d -o x", "--resume last.pt --data-root /d -o x"),
        ("--resume --checkpoint-dir c", "--resume --checkpoint-dir c"),
        ("--output-dir --fast", "--output-dir --fast"),
    ],
)
def test_output_flags_of_a_command_point_into_the_trial(typed: str, expected: str) -> None:
    done = redirected_output(workload(f"python t.py {typed}"), FOLDER)
    assert " ".join(done.command) == f"python t.py {expected}"


def test_a_folder_that_exists_for_the_training_is_to_be_made_for_the_trial(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    config = {"output_dir": "runs", "log_dir": "logs"}
    assert redirected_output(workload(config=config, cwd=tmp_path), FOLDER).create == (Path(OUT),)


def test_trackers_are_off_or_local() -> None:
    env = tracker_env(FOLDER)
    assert env["WANDB_MODE"] == "disabled"
    assert env["MLFLOW_TRACKING_URI"] == f"file://{OUT}/mlruns"


@pytest.mark.parametrize(
    "command",
    [
        ("python", "train.py", "--run-name", "output_dir=x"),
        ("env", "output_dir=x", "./train"),
        ("python", "train.py", "--notes", "log_dir=x"),
    ],
)
def test_a_word_that_may_be_another_flags_value_is_left_alone(command: tuple[str, ...], tmp_path: Path) -> None:
    found = redirected_output(Workload(command=command, cwd=tmp_path), tmp_path)
    assert found.command == command and not found.notes


@pytest.mark.parametrize(
    ("config", "command", "by"),
    [
        ({"resume": True}, "", ("resume", True)),
        ({"training": {"resume": "auto"}}, "", ("training.resume", "auto")),
        ({"resume": {"enabled": True, "path": "last.pt"}}, "", ("resume", {"enabled": True, "path": "last.pt"})),
        ({}, "--resume", ("--resume", True)),
        ({}, "--resume last.pt -x", ("--resume", "last.pt")),
        ({}, "--auto-resume=1 -x", ("--auto-resume", "1")),
        ({"wandb": {"resume": "allow"}}, "", None),
        ({"logger": {"resume": "must"}}, "", None),
        ({"resume": "no"}, "", None),
        ({"resume": {"enabled": False, "path": "last.pt"}}, "", None),
        ({"resume_from_checkpoint": "none"}, "", None),
        ({}, "--resume=none", None),
        ({}, "--resume False -x", None),
    ],
)
def test_a_training_resumes_by_itself_where_a_switch_of_its_own_is_on(
    config: dict[str, Any], command: str, by: object
) -> None:
    assert resumes_by(Workload(command=("python", "train.py", *command.split()), cwd=Path("/w"), config=config)) == by
