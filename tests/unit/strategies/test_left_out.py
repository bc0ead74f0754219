"""Which trials a walk cannot rest on: what a launch now would run is compared with what each of them ran."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.studies import a_trial
from vtune.config.command_line import CommandLine
from vtune.config.load import experiment_from_command, load_experiment
from vtune.domain.events import Fact
from vtune.domain.experiment import Experiment
from vtune.domain.record import CODE, TrialRecord
from vtune.domain.trial import Proposal
from vtune.execution.prepare import prepare_trial
from vtune.journal.code import code_of
from vtune.journal.files import dump_json
from vtune.journal.paths import StudyPaths
from vtune.journal.records import spec_to_json
from vtune.strategies.left_out import left_out

CONFIG = """vtune:
  command: /usr/bin/env train.py --config {config}
output_dir: runs
training:
  workers: 1
  learning_rate: 0.001
  sizes: [64, 64]
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StudyPaths:
    monkeypatch.chdir(tmp_path)
    return StudyPaths(tmp_path / "results" / "s")


def asked(text: str) -> Experiment:
    Path("train.yaml").write_text(text)
    return load_experiment("train.yaml", overrides=CommandLine(study="s"))


def ran(experiment: Experiment, study: StudyPaths, trial: int, settings: dict[str, Any]) -> TrialRecord:
    """A trial's folder as its launch leaves it."""
    folder = study.trial(trial)
    folder.root.mkdir(parents=True)
    proposal = Proposal(settings=settings, reason="", origin="phase:1:workers")
    spec, _ = prepare_trial(experiment, study, proposal, number=trial, train_loader="any", folder=folder)
    dump_json(folder.spec, spec_to_json(spec))
    return a_trial(trial, 10.0, asked=settings)


def test_what_ran_other_code_is_left_out_and_a_file_that_was_only_touched_is_the_same(study: StudyPaths) -> None:
    experiment = asked(CONFIG)
    Path("data.py").write_text("SLEEP_S = 0.06\n")
    facts = [Fact(pid=1, t_s=0.0, name="modules", data={"files": [str(Path("data.py").absolute()), "/gone.py"]})]
    record = ran(experiment, study, 1, {})
    record = replace(record, evidence={CODE: code_of(facts)})
    Path("data.py").touch()
    assert left_out([record], experiment, study) == frozenset()
    Path("data.py").write_text("SLEEP_S = 0.01\n")
    assert left_out([record], experiment, study) == frozenset({1})
    Path("data.py").unlink()
    assert left_out([record], experiment, study) == frozenset()


def test_the_same_training_turned_otherwise_is_the_same_training(study: StudyPaths) -> None:
    experiment = asked(CONFIG)
    records = [ran(experiment, study, 1, {}), ran(experiment, study, 2, {"workers": 4})]
    assert left_out(records, experiment, study) == frozenset()
    # Moved as a whole, its own folders are called otherwise.
    study.root.parent.rename(study.root.parent.parent / "moved")
    moved = StudyPaths(study.root.parent.parent / "moved" / "s")
    assert left_out(records, experiment, moved) == frozenset()


@pytest.mark.parametrize(
    ("old", "new"),
    [("learning_rate: 0.001", "learning_rate: 0.01"), ("learning_rate: 0.001", "learning_rate: 1.0e-3\n  more: 1"),
     ("[64, 64]", "[64, 32]"), ("workers: 1", "workers: 2")],
)  # fmt: skip
def test_another_config_is_another_training(study: StudyPaths, old: str, new: str) -> None:
    before = asked(CONFIG)
    records = [ran(before, study, 1, {}), ran(before, study, 2, {"workers": 4})]
    now = replace(before, workload=replace(before.workload, config=_read(CONFIG.replace(old, new))))
    told = left_out(records, now, study)
    # Trial 2 set the workers itself: whatever the config says of them, it would run as it ran.
    assert told == ({1} if old.startswith("workers") else {1, 2})


def test_comments_and_output_folders_make_no_other_training(study: StudyPaths) -> None:
    records = [ran(asked(CONFIG), study, 1, {})]
    again = asked(CONFIG.replace("training:", "# of the training\ntraining:"))
    assert left_out(records, again, study) == frozenset()


def test_another_command_is_another_training(study: StudyPaths) -> None:
    Path("train.py").touch()
    before, now = (
        experiment_from_command(("/usr/bin/env", "train.py", "--lr", rate), overrides=CommandLine(study="s"))
        for rate in ("1", "2")
    )
    records = [ran(before, study, 1, {}), ran(now, study, 2, {})]
    assert left_out(records, now, study) == {1}


def test_where_nobody_knows_what_a_trial_ran_it_counts(study: StudyPaths) -> None:
    assert left_out([a_trial(1, 10.0)], asked(CONFIG), study) == frozenset()
    experiment = asked(CONFIG)
    records = [ran(experiment, study, 2, {})]
    copy = next(study.trial(2).root.glob("config.*"))
    copy.write_text("not: [yaml")
    assert left_out(records, experiment, study) == frozenset()


def test_a_knob_that_lost_its_way_into_the_training_cannot_be_launched_again(study: StudyPaths) -> None:
    experiment = asked(CONFIG.replace("workers: 1", "workers: 1\n  accumulate_steps: 1"))
    records = [ran(experiment, study, 1, {"accumulate_steps": 2})]
    assert left_out(records, asked(CONFIG), study) == {1}


def _read(text: str) -> dict[str, Any]:
    import yaml

    return {name: value for name, value in yaml.safe_load(text).items() if name != "vtune"}
