"""The whole loop over trainings that are only calculated, and over what it recorded of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from vtune.domain.experiment import Experiment, Window, Workload
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.execution.engines.engine import Engine
from vtune.execution.engines.simulated.engine import SimulatedEngine, machine_of
from vtune.execution.engines.simulated.recorded import RecordedEngine
from vtune.execution.engines.simulated.surfaces import SMALL_VOLUMES
from vtune.journal.paths import StudyPaths
from vtune.journal.study import open_study
from vtune.strategies.race import Race
from vtune.tuner import Tuning, tune

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
