from __future__ import annotations

from pathlib import Path

import pytest

from vtune.config.experiment_file import write_experiment
from vtune.config.load import experiment_from_command, load_experiment
from vtune.config.named_config import config_named_by
from vtune.domain.effects import SetConfigKey, SetDataLoaderOption
from vtune.domain.experiment import ConfigWord, Experiment
from vtune.domain.trial import Proposal
from vtune.execution.prepare import prepare_trial
from vtune.journal.paths import StudyPaths, TrialPaths
from vtune.knobs.plan import effects_of, needs_scout
from vtune.knobs.ways import current_settings

TEXT = "# mine\ntraining:\n  workers: 1   # slow\n  epochs: 7\noutput_dir: runs\n"


@pytest.fixture
def project(here: Path) -> Path:
    (here / "exp.yaml").write_text(TEXT)
    (here / "other.json").write_text('{"num_workers": 3}')
    (here / "acc.yaml").write_text("num_processes: 2\n")
    return here


@pytest.mark.parametrize(
    ("words", "name", "word"),
    [
        ("python train.py --config exp.yaml", "exp.yaml", ConfigWord(position=3, prefix="")),
        ("python train.py --lr 1 --cfg=exp.yaml", "exp.yaml", ConfigWord(position=4, prefix="--cfg=")),
        ("python train.py -c ./exp.yaml --amp", "exp.yaml", ConfigWord(position=3, prefix="")),
        ("python -m pkg.train --config-file other.json", "other.json", ConfigWord(position=4, prefix="")),
        ("python train.py exp.yaml", "exp.yaml", ConfigWord(position=2, prefix="")),
        ("python train.py --config exp.yaml other.json", "exp.yaml", ConfigWord(position=3, prefix="")),
        ("accelerate launch --config_file acc.yaml train.py exp.yaml", "exp.yaml", ConfigWord(position=5, prefix="")),
    ],
)
def test_the_config_that_a_command_names_is_found(project: Path, words: str, name: str, word: ConfigWord) -> None:
    found = config_named_by(words.split(), project)
    assert found is not None and (found.path, found.word) == (project / name, word)


@pytest.mark.parametrize(
    "words",
    [
        "python train.py",
        "python train.py --config missing.yaml",
        "python train.py --config exp.yaml --config other.json",
        "python train.py exp.yaml other.json",
        "python train.py --data other.json",
        "python train.py --config train.py",
        "accelerate launch --config_file acc.yaml train.py",
        "my-trainer exp.yaml",
        "python train.py -- --config exp.yaml",
        "python train.py --config",
        "python train.py --config=",
    ],
)
def test_where_it_is_not_clear_which_the_command_stays_as_it_is(project: Path, words: str) -> None:
    assert config_named_by(words.split(), project) is None


@pytest.mark.parametrize(
    "text",
    ["", "[1, 2]\n", "a: [\n", "_BASE_: ../base.yaml\nworkers: 1\n", "defaults: [model]\n", "a: 1\na: 2\n", "\x00"],
)
def test_what_cannot_be_read_or_builds_on_other_files_is_left_alone(here: Path, text: str) -> None:
    (here / "x.yaml").write_text(text)
    assert config_named_by(["python", "train.py", "--config", "x.yaml"], here) is None
    assert config_named_by(["python", "train.py", "--config", "x" * 5000 + ".yaml"], here) is None


def asked(*more: str) -> Experiment:
    return experiment_from_command(["python", "train.py", "--config", "exp.yaml", *more])


def test_its_keys_are_knobs_and_tell_the_length_of_the_run(project: Path) -> None:
    experiment = asked()
    assert current_settings(experiment) == {"workers": 1}
    assert (experiment.planned_run.epochs, experiment.planned_run.epochs_source) == (7, "training.epochs in exp.yaml")
    assert not needs_scout({"workers": 4}, experiment)
    assert effects_of({"workers": 4, "pin_memory": True}, experiment, "L") == (
        SetConfigKey(path=("training", "workers"), value=4),
        SetDataLoaderOption(loader="L", option="pin_memory", value=True),
    )


def prepared(
    experiment: Experiment, root: Path, **settings: int | bool
) -> tuple[tuple[str, ...], Path, tuple[str, ...]]:
    folder = TrialPaths(root / "out" / "s" / "trials" / "0001")
    folder.root.mkdir(parents=True)
    proposal = Proposal(settings=settings, reason="r", origin="probe")
    spec, notes = prepare_trial(
        experiment, StudyPaths(root / "out" / "s"), proposal, number=1, train_loader="L", folder=folder
    )
    return spec.command, folder.root / "config.yaml", notes


def test_a_trial_that_changes_a_key_gets_a_copy_in_place_of_the_file(project: Path) -> None:
    command, copy, notes = prepared(asked("--lr=1"), project, workers=4)
    assert command == ("python", "train.py", "--config", str(copy), "--lr=1")
    text = copy.read_text()
    assert "  workers: 4   # slow\n" in text and str(copy.parent / "output") in text
    assert notes == ("output_dir points into the trial's folder instead of runs",)
    assert (project / "exp.yaml").read_text() == TEXT


@pytest.mark.parametrize("settings", [{}, {"pin_memory": True}])
def test_every_other_trial_runs_the_command_as_it_is(project: Path, settings: dict[str, bool]) -> None:
    command, copy, notes = prepared(asked(), project, **settings)
    assert command == ("python", "train.py", "--config", "exp.yaml")
    assert not copy.exists() and notes == ()


def test_a_studys_experiment_file_keeps_the_command_and_finds_the_config_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = asked()
    (project / "s").mkdir()
    write_experiment(first, project / "s" / "experiment.yaml")
    monkeypatch.chdir("/")
    again = load_experiment(project / "s" / "experiment.yaml")
    for name in ("study", "workload", "planned_run", "settings"):
        assert getattr(again, name) == getattr(first, name), name


def test_in_an_experiment_file_a_key_of_the_named_config_can_be_bound(project: Path) -> None:
    (project / "e.yaml").write_text(
        "vtune:\n  command: python train.py --config exp.yaml\n  knobs: {accumulate_steps: {key: training.epochs}}\n"
    )
    assert current_settings(load_experiment("e.yaml")) == {"workers": 1, "accumulate_steps": 7}


def test_a_vtune_section_in_the_named_config_is_not_the_trainings(project: Path) -> None:
    (project / "exp.yaml").write_text("vtune: {command: x, settings: {batch_size: 4}}\n" + TEXT)
    assert current_settings(asked()) == {"workers": 1}
    _, copy, _ = prepared(asked(), project, workers=2)
    assert "vtune" not in copy.read_text().replace(str(project), "")
