"""The loop on a simulated training, some of whose trials other programs disturb."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from support.simulated import simulated_experiment
from support.walks import WORKERS
from vtune.domain.experiment import Experiment
from vtune.domain.phases import AskedPhases, Plan
from vtune.domain.progress import TrialDisturbed, TuningEvent
from vtune.domain.record import Projection
from vtune.domain.trial import TrialOutcome, TrialSpec
from vtune.errors import MachineError
from vtune.execution.engines.simulated.engine import SimulatedEngine, machine_of
from vtune.execution.engines.simulated.surfaces import SMALL_VOLUMES
from vtune.execution.observer import Watch
from vtune.execution.quiet import LAUNCHES, Quiet
from vtune.journal.paths import TrialPaths
from vtune.journal.study import open_study
from vtune.phases import PhaseResult, run_phases
from vtune.reporting.csv_table import csv_table
from vtune.reporting.markdown import markdown
from vtune.reporting.report_json import report_to_json
from vtune.search import AskedSearch, run_search
from vtune.strategies.fixed import Once
from vtune.strategies.race import Race
from vtune.telemetry.other_programs import Load
from vtune.tuner import Tuning, tune

MACHINE = machine_of(SMALL_VOLUMES)
SURFACE = replace(SMALL_VOLUMES, settings={**SMALL_VOLUMES.settings, "workers": 1})
SHORT = Plan(name="short", about="", phases=(replace(WORKERS, rungs=({"workers": 2}, {"workers": 4})),))
ALL = range(1, 100)


class Disturbed:
    """Its training runs as it is simulated; during these trials the telemetry sees somebody on every core."""

    def __init__(self, trials: Sequence[int]) -> None:
        self._engine, self._trials = SimulatedEngine(SURFACE), trials

    def run(
        self, spec: TrialSpec, folder: TrialPaths, watch: Watch, notify: Callable[[TuningEvent], None]
    ) -> TrialOutcome:
        outcome = self._engine.run(spec, folder, watch, notify)
        program = {"pid": 412, "name": "ffmpeg", "cores": MACHINE.cores}
        busy = {"others_cores": MACHINE.cores, "programs": [program]}
        seen = busy if spec.trial in self._trials else {"programs": []}
        samples = [{**json.loads(line), **seen} for line in folder.telemetry.read_text().splitlines()]
        folder.telemetry.write_text("".join(f"{json.dumps(sample)}\n" for sample in samples))
        return outcome


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    found = simulated_experiment(SURFACE)
    return replace(found, study="s", workload=replace(found.workload, cwd=tmp_path))


@contextmanager
def opened(
    experiment: Experiment, trials: Sequence[int], *, anyway: bool = False, launches: int = LAUNCHES,
    notify: Callable[[TuningEvent], None] = lambda event: None,
) -> Iterator[Tuning]:  # fmt: skip
    quiet = Quiet(anyway=anyway, launches=launches, look=lambda over_s: Load(others_cores=0.0, programs=()))
    with open_study(experiment.workload.cwd / "results", "s", MACHINE) as study:
        yield Tuning(
            study=study, experiment=experiment, engine=Disturbed(trials), machine=MACHINE, notify=notify, quiet=quiet
        )


def walked(experiment: Experiment, trials: Sequence[int], **fields: bool) -> PhaseResult:
    with opened(experiment, trials, **fields) as tuning:
        return run_phases(tuning, AskedPhases(plan=SHORT, confirm=False))


def test_a_disturbed_probe_is_kept_without_a_verdict_and_ends_with_who_it_was(experiment: Experiment) -> None:
    with opened(experiment, ALL, launches=1) as tuning, pytest.raises(MachineError, match="pid 412 ffmpeg") as ended:
        tune(tuning, Once({}))
    assert ended.value.exit_code == 3
    [record] = tuning.study.journal.read()
    assert record.on_busy_machine and record.measurement.samples_per_s
    diagnosis = record.diagnosis
    assert (diagnosis.bottleneck, diagnosis.headroom, diagnosis.why) == ("unknown", None, ())
    assert record.measurement.projected == Projection() and record.measurement.samples_per_s_ci95 is None
    assert record.measurement.what_if == () and not any("--set" in line for line in diagnosis.next)


def test_the_same_question_is_asked_anew_after_a_disturbed_answer(experiment: Experiment) -> None:
    with opened(experiment, [1], launches=1) as tuning, pytest.raises(MachineError):
        tune(tuning, Once({}))
    with opened(experiment, []) as tuning:
        history = tune(tuning, Once({}, already=1))
    assert [record.on_busy_machine for record in history] == [True, False]


def test_phases_launch_a_disturbed_trial_again_and_come_to_the_same_end(experiment: Experiment, tmp_path: Path) -> None:
    events: list[TuningEvent] = []
    result = walked(experiment, [1, 3], notify=events.append)
    assert [event.trial for event in events if isinstance(event, TrialDisturbed)] == [1, 3]
    assert not {1, 3} & set(result.walk.trials) and result.walk.stage == "done"
    own = replace(experiment, workload=replace(experiment.workload, cwd=tmp_path / "quiet"))
    own.workload.cwd.mkdir()
    assert result.walk.settings == walked(own, []).walk.settings != {}


def test_phases_that_others_disturb_again_and_again_stop_and_go_on_later(experiment: Experiment) -> None:
    with pytest.raises(MachineError, match="while trial 4 ran") as stopped:
        walked(experiment, [2, 3, 4])
    assert stopped.value.exit_code == 3 and "goes on" in stopped.value.hint
    result = walked(experiment, [])
    assert result.walk.trials[0] == 1 and min(result.walk.trials[1:]) == 5 and result.walk.stage == "done"


def test_anyway_measures_every_step_and_decides_nothing(experiment: Experiment) -> None:
    result = walked(experiment, ALL, anyway=True)
    assert [rung.state for outcome in result.walk.phases for rung in outcome.rungs] == ["undecided", "undecided"]
    assert len(result.report.records) == 3 and result.report.choice.best is None and result.walk.settings == {}
    told = report_to_json(result.report)
    assert told["best"] is None and told["speedup"] is None and told["verdict"].startswith("no verdict")
    assert [trial["others"]["busy"] for trial in told["trials"]] == [True] * 3
    assert csv_table(result.report).count(",true,") >= 3
    rows = [line for line in markdown(result.report).partition("## Trials")[2].splitlines() if line.startswith("| ")]
    assert sum("busy machine" in row for row in rows) == 3


@pytest.mark.slow
def test_what_was_measured_anyway_is_measured_again_when_it_is_quiet(experiment: Experiment) -> None:
    walked(experiment, ALL, anyway=True)
    result = walked(experiment, [])
    assert min(result.walk.trials) == 4 and result.report.choice.best is not None
    assert [lost.reason for lost in result.report.choice.lost if lost.trial <= 3] == ["busy_machine"] * 3


def test_a_step_that_others_disturb_anyway_neither_wins_nor_ends_the_ladder(experiment: Experiment) -> None:
    result = walked(experiment, [2], anyway=True)
    states = [rung.state for outcome in result.walk.phases for rung in outcome.rungs]
    assert states[0] == "undecided" and states[1] == "kept"


def test_a_search_anyway_uses_its_trials_and_crowns_nobody(experiment: Experiment) -> None:
    with opened(experiment, ALL, anyway=True) as tuning:
        result = run_search(tuning, AskedSearch(trials=4))
    assert len(result.report.records) == 4 and result.report.choice.best is None
    assert result.hunt.stage == "done" and result.hunt.stopped is None


def test_a_search_launches_a_disturbed_trial_again(experiment: Experiment) -> None:
    with opened(experiment, [1, 2]) as tuning:
        result = run_search(tuning, AskedSearch(trials=3, confirm=False))
    assert result.hunt.counted <= 3 and not {1, 2} & set(result.hunt.trials)


@pytest.mark.slow
def test_a_race_launches_a_disturbed_leg_again_and_anyway_ends_with_its_round(experiment: Experiment) -> None:
    race = Race([{"workers": 4}], {}, rounds=2)
    with opened(experiment, [2]) as tuning:
        history = tune(tuning, race)
    first = [record for record in history if record.race is not None and record.race.round == 1]
    assert len(first) == 3 and race.standing(history).rounds >= 2
    other = replace(race, seed=1, already=history[-1].trial, anyway=True)
    with opened(experiment, ALL, anyway=True) as tuning:
        more = tune(tuning, other)[len(history) :]
    assert len(more) == 2 and other.standing(more).rounds == 0
