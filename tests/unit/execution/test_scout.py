"""Which loader feeds the steps: learnt of a short run, also of one that had no room for its first step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.trial_writer import TrialWriter
from vtune.domain.experiment import Experiment, PlannedRun, Window, Workload
from vtune.domain.knob import TrainLoader
from vtune.domain.progress import TuningEvent
from vtune.domain.trial import EndedBy, Proposal, TrialOutcome, TrialSpec
from vtune.errors import StorageError
from vtune.execution.observer import Watch
from vtune.execution.scout import ScoutFailed, known_loader, learn_loader
from vtune.journal.paths import StudyPaths, TrialPaths

KEY = "train.py:8:Patches#0 aaaa"


@dataclass(frozen=True)
class EndsBeforeItsFirstStep:
    loaders: tuple[str, ...]
    ended_by: EndedBy = "limit"

    def run(
        self, spec: TrialSpec, folder: TrialPaths, watch: Watch, notify: Callable[[TuningEvent], None]
    ) -> TrialOutcome:
        writer = TrialWriter(folder.root)
        writer.hello()
        for number, key in enumerate(self.loaders):
            writer.loader(number, key)
            writer.begin_pass(number, loader=number, workers=8)
        return TrialOutcome(ended_by=self.ended_by, exit_code=None, signal=9, seconds=3.0)


def learnt(tmp_path: Path, engine: EndsBeforeItsFirstStep) -> TrainLoader | ScoutFailed:
    experiment = Experiment(study="s", workload=Workload(command=("python", "train.py"), cwd=tmp_path))
    study = StudyPaths(tmp_path / "results" / "s")
    study.root.mkdir(parents=True, exist_ok=True)
    asked = Proposal(settings={"workers": 4}, reason="", origin="phase:0:workers")
    watch = Watch(window=Window(), planned=PlannedRun())
    found = learn_loader(experiment, study, asked, 2, engine, watch, lambda event: None)
    assert isinstance(found, ScoutFailed) == (known_loader(experiment, study) is None)
    return found


def test_the_only_loader_of_a_training_without_room_for_a_step_is_its_training_loader(tmp_path: Path) -> None:
    found = learnt(tmp_path, EndsBeforeItsFirstStep((KEY,)))
    assert isinstance(found, TrainLoader)
    assert found.key == KEY and found.where == "train.py:8" and found.settings["workers"] == 8


def test_of_two_loaders_before_the_first_step_nobody_knows_which_it_is(tmp_path: Path) -> None:
    assert isinstance(learnt(tmp_path, EndsBeforeItsFirstStep((KEY, "train.py:9:Val#0"))), ScoutFailed)


def test_of_a_run_that_was_interrupted_nothing_is_learnt(tmp_path: Path) -> None:
    assert isinstance(learnt(tmp_path, EndsBeforeItsFirstStep((KEY,), ended_by="interrupt")), ScoutFailed)


def test_a_scout_that_holds_the_only_old_state_of_a_file_is_not_removed(tmp_path: Path) -> None:
    study = StudyPaths(tmp_path / "results" / "s")
    (study.scout.root / "kept" / "0").mkdir(parents=True)
    study.scout.not_restored.write_text('{"/home/me/last.pt": "Operation not permitted"}')
    with pytest.raises(StorageError, match=r"/home/me/last\.pt"):
        learnt(tmp_path, EndsBeforeItsFirstStep((KEY,)))
    assert (study.scout.root / "kept" / "0").exists()
