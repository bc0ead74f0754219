"""Replaying a study: its folders come back as those of new trials."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment, PlannedRun, Window, Workload
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialSpec
from vtune.errors import UsageError
from vtune.execution.ceiling import ORIGIN
from vtune.execution.engines.engine import Engine
from vtune.execution.engines.simulated.engine import SimulatedEngine, machine_of
from vtune.execution.engines.simulated.recorded import RecordedEngine
from vtune.execution.engines.simulated.surfaces import SMALL_VOLUMES
from vtune.execution.observer import Watch
from vtune.execution.read import read_trial
from vtune.journal.journal import Journal
from vtune.journal.paths import StudyPaths, TrialPaths

WINDOW = Window(steps=20, max_steps=20)
CONFIG = {"workers": 2, "prefetch_factor": 2, "batch_size": 2}


def run(
    engine: Engine, study: StudyPaths, number: int, settings: dict[str, Scalar], *, ceiling: bool = False
) -> TrialRecord:
    folder = study.trial(number)
    folder.root.mkdir(parents=True)
    spec = TrialSpec(
        trial=number, origin="probe", reason="a test", settings=settings, effects=(), command=("python", "train.py"),
        cwd=".", env={}, token="t",
    )  # fmt: skip
    workload = Workload(command=spec.command, cwd=Path("."), config={"training": CONFIG})
    experiment = Experiment(study="s", workload=workload, window=WINDOW)
    watch = Watch(window=WINDOW, planned=PlannedRun(), ceiling=ceiling)
    outcome = engine.run(spec, folder, watch, lambda event: None)
    return read_trial(experiment, machine_of(SMALL_VOLUMES), spec, outcome, folder)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyPaths, list[TrialRecord]]:
    """The training's own settings, four workers, and these once more."""
    study = StudyPaths(tmp_path_factory.mktemp("recorded"))
    engine = SimulatedEngine(SMALL_VOLUMES)
    records = [run(engine, study, n, s) for n, s in enumerate([{}, {"workers": 4}, {"workers": 4}], 1)]
    for record in records:
        Journal(study.journal).append(record)
    return study, records


def test_a_proposal_is_answered_by_the_trial_that_ran_with_it(
    recorded: tuple[StudyPaths, list[TrialRecord]], tmp_path: Path
) -> None:
    study, records = recorded
    engine, new = RecordedEngine([study]), StudyPaths(tmp_path / "new")
    first, other = run(engine, new, 1, {"workers": 4}), run(engine, new, 2, {"workers": 2})
    assert first.measurement == records[1].measurement
    assert other.measurement == records[0].measurement
    assert (first.trial, first.settings["workers"], other.settings["workers"]) == (1, 4, 2)


def test_each_launch_is_replayed_once_in_its_order(
    recorded: tuple[StudyPaths, list[TrialRecord]], tmp_path: Path
) -> None:
    study, records = recorded
    engine, new = RecordedEngine([study]), StudyPaths(tmp_path / "new")
    rates = [run(engine, new, n, {"workers": 4}).measurement.samples_per_s for n in (1, 2)]
    assert rates == [records[1].measurement.samples_per_s, records[2].measurement.samples_per_s]
    with pytest.raises(UsageError, match="workers=4: recorded 2 times, and all of them were replayed"):
        run(engine, new, 3, {"workers": 4})


def test_what_was_never_recorded_is_refused_with_what_was(
    recorded: tuple[StudyPaths, list[TrialRecord]], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="workers=16: not among the 3 recorded trials") as refused:
        run(RecordedEngine([recorded[0]]), StudyPaths(tmp_path / "new"), 1, {"workers": 16})
    assert refused.value.hint == "recorded were own settings; workers=4"


def test_the_recording_stays_as_it_was(recorded: tuple[StudyPaths, list[TrialRecord]], tmp_path: Path) -> None:
    study, _ = recorded

    def files(folder: TrialPaths) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in folder.root.iterdir() if path.is_file()}

    before = files(study.trial(2))
    new = StudyPaths(tmp_path / "new")
    run(RecordedEngine([study]), new, 7, {"workers": 4})
    assert files(study.trial(2)) == before
    replayed = files(new.trial(7))
    assert replayed.keys() == before.keys()
    assert [name for name in before if replayed[name] != before[name]] == ["spec.json"]


def test_a_study_without_its_folders_answers_nothing(tmp_path: Path) -> None:
    empty = StudyPaths(tmp_path / "empty")
    with pytest.raises(UsageError, match="not among the 0 recorded trials"):
        run(RecordedEngine([empty]), StudyPaths(tmp_path / "new"), 1, {})


def test_a_journal_that_has_lost_its_folders_says_so(
    recorded: tuple[StudyPaths, list[TrialRecord]], tmp_path: Path
) -> None:
    bare = StudyPaths(tmp_path / "bare")
    bare.root.mkdir()
    shutil.copy(recorded[0].journal, bare.journal)
    with pytest.raises(UsageError, match="not among the 0 recorded trials, and 3 more in the journal have lost") as no:
        run(RecordedEngine([bare]), StudyPaths(tmp_path / "new"), 1, {"workers": 4})
    assert no.value.hint is not None and "put the study's trials/ back, or run the study again" in no.value.hint


def test_a_search_for_the_ceiling_stands_for_no_ordinary_trial(
    recorded: tuple[StudyPaths, list[TrialRecord]], tmp_path: Path
) -> None:
    """Its settings are those of the trial that it followed; its training was fed from memory."""
    searched = StudyPaths(tmp_path / "searched")
    shutil.copytree(recorded[0].root, searched.root)
    searched.journal.unlink()
    for record, origin in zip(recorded[1], (ORIGIN, ORIGIN, "probe"), strict=True):
        Journal(searched.journal).append(replace(record, origin=origin))
    new = StudyPaths(tmp_path / "new")
    ordinary = run(RecordedEngine([searched]), new, 1, {"workers": 4})
    assert ordinary.measurement == recorded[1][2].measurement
    with pytest.raises(UsageError, match="own settings: not among the 1 recorded trials"):
        run(RecordedEngine([searched]), new, 2, {})
    with pytest.raises(UsageError, match="the ceiling with workers=6: not among the 2 recorded trials"):
        run(RecordedEngine([searched]), new, 3, {"workers": 6}, ceiling=True)
    run(RecordedEngine([searched]), new, 4, {"workers": 4}, ceiling=True)
    assert new.trial(4).step_records()[0].read_bytes() == searched.trial(2).step_records()[0].read_bytes()
