from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtune.config.commands import script_of, study_name, study_name_of_command
from vtune.config.planned_run import planned_run
from vtune.domain.experiment import PlannedRun


@pytest.mark.parametrize(
    ("command", "stem"),
    [
        ("python train.py", "train"),
        ("python -u -W ignore src/my-train.py --epochs 3", "my-train"),
        ("python3.12 -m pkg.mod", "mod"),
        ("{python} -m pkg.train.__main__", "train"),
        ("torchrun --nproc-per-node 2 ddp.py", "ddp"),
        ("python -m torch.distributed.run ddp.py", "ddp"),
        ("accelerate launch run.py", "run"),
        ("./train.sh x", "train.sh"),
        ("python -c pass", "python"),
        ("my-trainer --fast", "my-trainer"),
    ],
)
def test_a_study_is_named_after_the_script_and_a_hash(command: str, stem: str) -> None:
    assert re.fullmatch(re.escape(stem) + "-[0-9a-f]{6}", study_name_of_command(command.split()))


def test_another_command_is_another_study() -> None:
    assert study_name_of_command(["python", "t.py", "a b"]) != study_name_of_command(["python", "t.py", "a", "b"])


@given(st.text())
def test_any_stem_becomes_a_safe_study_name(stem: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}", study_name(stem))


def test_options_of_python_are_not_its_script() -> None:
    assert script_of(["python", "-X", "dev", "-u", "a.py", "-m", "b"]) == ("a.py", None)
    assert script_of(["python", "-mpkg", "a.py"]) == (None, "pkg")
    assert script_of(["python", "-"]) == (None, None)
    assert script_of(["bash", "a.py"]) == (None, None)


CONFIG = {"training": {"max_epochs": 32, "train_iterations_per_epoch": 4000}, "epochs": 5}


def test_epochs_and_iterations_come_with_their_source() -> None:
    run = planned_run(command=["python", "t.py"], config=CONFIG, config_name="exp001.yaml")
    assert (run.epochs, run.epochs_source) == (32, "training.max_epochs in exp001.yaml")
    assert run.iterations_per_epoch == 4000
    assert run.iterations_source == "training.train_iterations_per_epoch in exp001.yaml"


@pytest.mark.parametrize(
    "words", ["--epochs 7", "--epochs=7", "--max-epochs 7", "--num_epochs=7", "trainer.max_epochs=7"]
)
def test_the_command_overrides_its_config(words: str) -> None:
    run = planned_run(command=["python", "t.py", *words.split()], config=CONFIG, config_name="exp001.yaml")
    assert run.epochs == 7
    assert run.epochs_source == f"{words.replace('=', ' ').split()[0]} in the command"


def test_what_the_user_states_wins() -> None:
    stated = PlannedRun(epochs=2, epochs_source="vtune.run.epochs in exp.yaml", samples_per_epoch=806)
    run = planned_run(command=["python", "t.py", "--epochs", "7"], config=CONFIG, config_name="x", stated=stated)
    assert (run.epochs, run.samples_per_epoch, run.iterations_per_epoch) == (2, 806, 4000)


@pytest.mark.parametrize("value", [-1, 0, True, "32", 3.5, None, [3]])
def test_what_is_no_number_of_epochs_is_unknown(value: object) -> None:
    run = planned_run(command=["python", "t.py"], config={"max_epochs": value}, config_name="x")
    assert (run.epochs, run.epochs_source) == (None, None)


def test_connectomics_iterations_are_known() -> None:
    run = planned_run(command=["x"], config={"data": {"iter_num": 100}}, config_name="c.yaml")
    assert (run.iterations_per_epoch, run.iterations_source) == (100, "data.iter_num in c.yaml")


def test_script_existence_is_not_asked_of_placeholders(tmp_path: Path) -> None:
    from vtune.config.commands import program_problem

    assert program_problem(["{python}", "-m", "pkg"], tmp_path, {}) is None
    assert program_problem(["python3", "{config}"], tmp_path, {"PATH": ""}) is None


def test_intervals_are_known_where_their_names_count_steps() -> None:
    config = {"training": {"save_steps": 500}, "eval_interval": 5, "trainer": {"eval_steps": -1}}
    run = planned_run(command=["python", "t.py"], config=config, config_name="c.yaml")
    assert (run.checkpoint_every_steps, run.validation_every_steps) == (500, None)
    run = planned_run(command=["python", "t.py", "--eval-steps", "200"], config=config, config_name="c.yaml")
    assert run.every_steps == {"checkpoint": 500, "validation": 200}
