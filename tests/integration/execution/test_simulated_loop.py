"""The whole loop over trainings that are only calculated, and over what it recorded of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from vtune.domain.experiment import Experiment, Window, Workload
from vtune.domain.progress import TuningEvent
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialOutcome, TrialSpec, TrialStatus
from vtune.execution.engines.engine import Engine
from vtune.execution.engines.simulated.engine import SimulatedEngine, machine_of
from vtune.execution.engines.simulated.recorded import RecordedEngine
from vtune.execution.engines.simulated.surfaces import SMALL_VOLUMES
from vtune.execution.observer import Watch
from vtune.journal.paths import StudyPaths, TrialPaths
from vtune.journal.study import open_study
from vtune.strategies.fixed import Once
from vtune.strategies.race import Race
from vtune.tuner import IN_THE_SCOUT_RUN, Tuning, tune

MACHINE = machine_of(SMALL_VOLUMES)


def raced(engine: Engine, results: Path, race: Race) -> Sequence[TrialRecord]:
    experiment = Experiment(
        study="s",
        workload=Workload(command=("python", "train.py"), cwd=results.parent),
        window=Window(steps=50, max_steps=50),
    )
    with open_study(results, "s", MACHINE) as study:
        tuning = Tuning(study=study, experiment=experiment, engine=engine, machine=MACHINE, notify=lambda event: None)
        return tune(tuning, race)


@dataclass(frozen=True)
class WritesElsewhere:
    """Its scout run changes a file outside the protected folders and is refused another one."""

    engine: Engine
    path: Path

    def run(
        self, spec: TrialSpec, folder: TrialPaths, watch: Watch, notify: Callable[[TuningEvent], None]
    ) -> TrialOutcome:
        outcome = self.engine.run(spec, folder, watch, notify)
        if watch.scout:
            self.path.touch()
            facts: list[dict[str, object]] = [
                {"t": 1.0, "fact": "touched", "path": str(self.path), "before": None},
                {"t": 2.0, "fact": "not_kept", "path": "/data/last.pt", "errno": 28, "reason": "no room"},
            ]
            (folder.root / "files-1.jsonl").write_text("".join(f"{json.dumps(fact)}\n" for fact in facts))
        return outcome


def test_files_that_the_scout_run_wrote_are_told_in_the_record_of_its_trial(tmp_path: Path) -> None:
    experiment = Experiment(
        study="s",
        workload=Workload(command=("python", "train.py"), cwd=tmp_path),
        window=Window(steps=20, max_steps=20),
    )
    elsewhere = tmp_path / "elsewhere.pt"
    engine = WritesElsewhere(SimulatedEngine(SMALL_VOLUMES), elsewhere)
    with open_study(tmp_path / "results", "s", MACHINE) as study:
        tuning = Tuning(study=study, experiment=experiment, engine=engine, machine=MACHINE, notify=lambda event: None)
        [record] = tune(tuning, Once({"workers": 6}, already=0))
    assert record.status is TrialStatus.COMPLETED
    told = [note for note in record.notes if note.startswith(IN_THE_SCOUT_RUN)]
    assert len([note for note in told if str(elsewhere) in note]) == 1
    assert len([note for note in told if "/data/last.pt" in note]) == 1


@pytest.mark.slow
def test_a_race_is_run_to_its_end_and_again_from_its_recording(tmp_path: Path) -> None:
    race = Race(contestants=[{"workers": 6}], baseline={}, cores=MACHINE.cores)
    history = raced(SimulatedEngine(SMALL_VOLUMES), tmp_path / "results", race)
    standing = race.standing(history)
    assert {record.status for record in history} == {TrialStatus.COMPLETED}
    assert standing.decided and standing.won and standing.lead == 1
    # The loader had to be found first: by a scout run, which is no trial.
    assert StudyPaths(tmp_path / "results" / "s").scout_result.exists()

    recorded = RecordedEngine([StudyPaths(tmp_path / "results" / "s")])
    again = raced(recorded, tmp_path / "replayed", race)
    assert [record.measurement for record in again] == [record.measurement for record in history]
    assert race.standing(again) == standing
