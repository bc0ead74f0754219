"""Phases through the loop on a simulated training: told, kept after every trial, gone on with, reported at the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.simulated import simulated_experiment
from support.studies import a_failure, a_trial
from support.walks import PLAN, PREFETCH, WORKERS
from vtune.config.experiment_file import write_experiment
from vtune.domain.events import Fact
from vtune.domain.experiment import Experiment, Limit
from vtune.domain.phases import AskedPhases, Option, Plan, Walk
from vtune.domain.progress import TrialFinished, TrialProgress, TrialStarted, TuningEvent, WalkMoved
from vtune.domain.record import CODE
from vtune.domain.repeated import Repeated, Repeats
from vtune.domain.trial import TrialStatus
from vtune.execution.engines.simulated.engine import SimulatedEngine, machine_of
from vtune.execution.engines.simulated.surfaces import SMALL_VOLUMES
from vtune.journal.code import code_of
from vtune.journal.paths import StudyPaths
from vtune.journal.study import open_study
from vtune.phases import PhaseResult, run_phases
from vtune.reporting.phases_of_study import read_phases
from vtune.reporting.report_json import report_to_json
from vtune.reporting.study_report import read_study_report
from vtune.tuner import Tuning

MACHINE = machine_of(SMALL_VOLUMES)
SHORT = Plan(
    name="short",
    about="",
    phases=(replace(WORKERS, rungs=({"workers": 2}, {"workers": 4})), replace(PREFETCH, number=2)),
    options=(Option(name="A", settings={"workers": 6}),),
)
Notify = Callable[[TuningEvent], None]


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    found = simulated_experiment(replace(SMALL_VOLUMES, settings={**SMALL_VOLUMES.settings, "workers": 1}))
    return replace(found, study="s", workload=replace(found.workload, cwd=tmp_path))


@contextmanager
def opened(results: Path, experiment: Experiment, notify: Notify = lambda event: None) -> Iterator[Tuning]:
    with open_study(results, "s", MACHINE) as study:
        engine = SimulatedEngine(replace(SMALL_VOLUMES, settings={**SMALL_VOLUMES.settings, "workers": 1}))
        yield Tuning(study=study, experiment=experiment, engine=engine, machine=MACHINE, notify=notify)


def walked(results: Path, experiment: Experiment, notify: Notify = lambda event: None, **asked: Any) -> PhaseResult:
    with opened(results, experiment, notify) as tuning:
        return run_phases(tuning, AskedPhases(**{"plan": SHORT, "confirm": False, **asked}))


def test_each_step_is_told_and_kept_before_the_next_trial_begins(tmp_path: Path, experiment: Experiment) -> None:
    paths, told = StudyPaths(tmp_path / "s"), list[str]()

    def notify(event: TuningEvent) -> None:
        if isinstance(event, WalkMoved):
            kept = json.loads(paths.phases.read_text())
            assert kept["walked"]["trials"] == list(event.walk.trials) and kept["stage"] == event.walk.stage
            assert [record.trial for record in event.records] == list(event.walk.trials)
        if not isinstance(event, TrialProgress):
            told.append(type(event).__name__)

    result = walked(tmp_path, experiment, notify)
    assert told[:4] == ["WalkMoved", "TrialStarted", "TrialFinished", "WalkMoved"] and told[-1] == "WalkMoved"
    assert told.count("TrialStarted") == len(result.walk.trials) == len(result.report.records) >= 3
    assert result.walk.stage == "done" and not result.interrupted
    assert result.report.choice.best is not None and result.walk.best is not None
    assert result.report.choice.best.trial == result.walk.best.trial
    names = {path.name for path in paths.root.iterdir()}
    assert {"phases.json", "choice.json", "report.md", "trials.csv"} <= names
    assert json.loads(paths.choice.read_text())["best"] == result.walk.best.trial
    told_json = report_to_json(result.report)
    assert told_json["phases"][0]["kept"] and told_json["speedup"] > 1.5 and told_json["pays_back_after_s"] > 0
    assert told_json["options"][0]["predicted"]["samples_per_s"] > 0 and told_json["options"][0]["trial"] is None


def test_gone_on_with_nothing_is_measured_again(tmp_path: Path, experiment: Experiment) -> None:
    first = walked(tmp_path, experiment, up_to=1)
    journal = (tmp_path / "s" / "journal.jsonl").read_bytes()
    events = list[TuningEvent]()
    assert walked(tmp_path, experiment, events.append, up_to=1).walk == first.walk
    assert (tmp_path / "s" / "journal.jsonl").read_bytes() == journal
    assert [type(event).__name__ for event in events] == ["WalkMoved", "WalkMoved"]
    whole = walked(tmp_path, experiment, options=True)
    assert whole.walk.trials[: len(first.walk.trials)] == first.walk.trials
    assert whole.walk.options[0].trial is not None
    assert len(whole.report.records) == len(set(whole.walk.trials))


def stop_at(kind: type[Any], number: int) -> Notify:
    """Ctrl-C at the n-th event of a kind."""
    seen = list[TuningEvent]()

    def notify(event: TuningEvent) -> None:
        if isinstance(event, kind):
            seen.append(event)
            if len(seen) == number:
                raise KeyboardInterrupt

    return notify


def test_an_interrupt_ends_the_trial_keeps_all_and_goes_on_to_the_same_end(
    tmp_path: Path, experiment: Experiment
) -> None:
    stopped = walked(tmp_path / "a", experiment, stop_at(TrialProgress, 8))
    assert stopped.interrupted and stopped.report.records[-1].status is TrialStatus.INTERRUPTED
    assert stopped.walk.stage != "done" and stopped.report.phases is not None
    steps = [rung for phase in report_to_json(stopped.report)["phases"] for rung in phase["rungs"]]
    cut = [rung["state"] for rung in steps if rung["trial"] == stopped.report.records[-1].trial]
    assert cut == ["interrupted"]
    assert "interrupted" in (tmp_path / "a" / "s" / "report.md").read_text().partition("## Phases")[2]
    assert (tmp_path / "a" / "s" / "report.md").exists()
    resumed, whole = walked(tmp_path / "a", experiment), walked(tmp_path / "b", experiment)
    assert not resumed.interrupted
    assert (resumed.walk.stage, resumed.walk.settings) == ("done", whole.walk.settings)


def test_a_baseline_that_crashed_is_run_again_by_the_next_call(tmp_path: Path, experiment: Experiment) -> None:
    with opened(tmp_path, experiment) as tuning:
        number = tuning.study.next_trial()
        tuning.study.new_trial_folder(number)
        tuning.study.journal.append(a_failure(number, TrialStatus.CRASHED, asked={}))
    result = walked(tmp_path, experiment, up_to=1)
    assert result.walk.stage == "done" and result.walk.stopped is None
    assert result.walk.baseline is not None and result.walk.baseline.trial == 2


def test_an_interrupt_between_two_trials_loses_nothing(tmp_path: Path, experiment: Experiment) -> None:
    stopped = walked(tmp_path, experiment, stop_at(WalkMoved, 3))
    assert stopped.interrupted and len(stopped.report.records) == 2
    assert {record.status for record in stopped.report.records} == {TrialStatus.COMPLETED}


def test_a_second_interrupt_leaves_at_once_and_the_journal_as_it_is(tmp_path: Path, experiment: Experiment) -> None:
    with pytest.raises(KeyboardInterrupt):
        walked(tmp_path, experiment, stop_at(TrialStarted, 2))
    report = read_study_report(StudyPaths(tmp_path / "s"))
    assert [record.trial for record in report.records] == [1]
    assert report.phases is not None and report.phases.trials == (1,)


def test_a_disk_that_does_not_take_what_is_only_shown_does_not_end_the_walk(
    tmp_path: Path, experiment: Experiment
) -> None:
    (tmp_path / "s" / "phases.json").mkdir(parents=True)
    result = walked(tmp_path, experiment, up_to=1)
    assert result.walk.stage == "done" and result.report.phases is None


@pytest.mark.parametrize("mended", [False, True])
def test_repeated_data_speaks_against_other_workers_until_the_training_is_mended(
    tmp_path: Path, experiment: Experiment, mended: bool
) -> None:
    script = tmp_path / "data.py"
    script.write_text("", encoding="utf-8")
    found = Repeated(reason=Repeats.SAME_NUMBERS, workers=3, dataset="Patches", where="data.py:8", generator="self.rng")
    code = code_of([Fact(pid=1, t_s=0.0, name="modules", data={"files": [str(script)]})])
    with opened(tmp_path, experiment) as tuning:
        number = tuning.study.next_trial()
        tuning.study.new_trial_folder(number)
        record = a_trial(number, 10.0, asked={"workers": 3})
        repeats = replace(record.measurement, repeated=found)
        tuning.study.journal.append(replace(record, measurement=repeats, evidence={CODE: code}))
    if mended:
        script.write_text("# mended", encoding="utf-8")
    walk = walked(tmp_path, experiment, up_to=1)
    came = {one.status for one in walk.report.records if one.trial > number and (one.asked or {}).get("workers")}
    assert came == ({TrialStatus.COMPLETED} if mended else set())


def test_trials_of_another_config_count_for_nothing_and_are_named(tmp_path: Path, experiment: Experiment) -> None:
    walked(tmp_path, experiment, up_to=1)
    before = len(read_study_report(StudyPaths(tmp_path / "s")).records)
    config = {**(experiment.workload.config or {}), "learning_rate": 0.5}
    other = replace(experiment, workload=replace(experiment.workload, config=config))
    result = walked(tmp_path, other, up_to=1)
    assert result.report.phases is not None
    assert result.report.phases.left_out == tuple(range(1, before + 1))
    assert min(result.walk.trials) == before + 1
    assert {record.trial for record in result.report.compared} == set(result.walk.trials)


def test_limits_that_change_after_the_fact_choose_differently_from_the_same_journal(
    tmp_path: Path, experiment: Experiment
) -> None:
    result = walked(tmp_path, experiment, up_to=1)
    best, baseline = result.report.choice.best, result.report.choice.baseline
    assert best is not None and baseline is not None and best.trial != baseline.trial
    peaks = {record.trial: record.measurement.ram_peak_bytes or 0 for record in (best, baseline)}
    assert peaks[baseline.trial] < peaks[best.trial]
    between = replace(experiment.limits, ram=_limit((peaks[baseline.trial] + peaks[best.trial]) // 2))
    paths = StudyPaths(tmp_path / "s")
    write_experiment(experiment, paths.experiment)
    again = read_study_report(paths, limits=between)
    assert again.choice.best is not None and again.choice.best.trial != best.trial
    assert best.trial in again.choice.over
    nothing = read_study_report(paths, limits=replace(between, ram=_limit(1)))
    assert nothing.choice.best is None


def _limit(size: int) -> Limit:
    return Limit(bytes=size, text=f"{size}B")


def test_the_plan_of_the_walk_is_the_one_that_was_asked_for(tmp_path: Path, experiment: Experiment) -> None:
    seen = list[Walk]()

    def notify(event: TuningEvent) -> None:
        if isinstance(event, WalkMoved):
            seen.append(event.walk)
        if isinstance(event, TrialFinished):
            raise KeyboardInterrupt

    result = walked(tmp_path, experiment, notify, plan=PLAN, up_to=2)
    assert result.interrupted and read_phases(StudyPaths(tmp_path / "s").phases) == result.report.phases
    assert result.report.phases is not None
    assert (result.report.phases.plan, result.report.phases.up_to, result.report.phases.of) == ("ladder", 2, 3)
    assert [outcome.phase.number for outcome in seen[0].phases] == [1, 2]
