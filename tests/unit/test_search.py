"""A search through the loop on a simulated training: told, kept after every trial, gone on with, reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.simulated import simulated_experiment
from vtune.domain.experiment import Experiment
from vtune.domain.progress import HuntMoved, TrialProgress, TrialStarted, TuningEvent
from vtune.domain.trial import TrialStatus
from vtune.execution.engines.simulated.engine import SimulatedEngine, machine_of
from vtune.execution.engines.simulated.surfaces import SMALL_VOLUMES
from vtune.journal.paths import StudyPaths
from vtune.journal.study import open_study
from vtune.reporting.report_json import report_to_json
from vtune.reporting.search_of_study import read_search
from vtune.reporting.study_report import read_study_report
from vtune.search import AskedSearch, SearchResult, run_search
from vtune.tuner import Tuning

MACHINE = machine_of(SMALL_VOLUMES)
SURFACE = replace(SMALL_VOLUMES, settings={**SMALL_VOLUMES.settings, "workers": 1})
Notify = Callable[[TuningEvent], None]


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    found = simulated_experiment(SURFACE)
    return replace(found, study="s", workload=replace(found.workload, cwd=tmp_path))


def searched(results: Path, experiment: Experiment, notify: Notify = lambda event: None, **asked: Any) -> SearchResult:
    with open_study(results, "s", MACHINE) as study:
        engine = SimulatedEngine(SURFACE)
        tuning = Tuning(study=study, experiment=experiment, engine=engine, machine=MACHINE, notify=notify)
        return run_search(tuning, AskedSearch(**{"trials": 3, "confirm": False, **asked}))


def test_each_look_is_told_and_kept_before_the_next_trial_begins(tmp_path: Path, experiment: Experiment) -> None:
    paths, told = StudyPaths(tmp_path / "s"), list[str]()

    def notify(event: TuningEvent) -> None:
        if isinstance(event, HuntMoved):
            kept = json.loads(paths.search.read_text())
            assert kept["counted"] == event.hunt.counted and kept["stage"] == event.hunt.stage
            assert kept["space"]["settings"] >= len(event.space.settings) > 10
        scout = isinstance(event, TrialStarted) and event.scout
        if not isinstance(event, TrialProgress) and not scout:
            told.append(type(event).__name__)

    result = searched(tmp_path, experiment, notify)
    assert told[:4] == ["HuntMoved", "TrialStarted", "TrialFinished", "HuntMoved"] and told[-1] == "HuntMoved"
    assert told.count("TrialStarted") == len(result.report.records) == 3
    assert result.hunt.stage == "done" and not result.interrupted
    assert [record.origin for record in result.report.records] == ["search"] * 3
    names = {path.name for path in paths.root.iterdir()}
    assert {"search.json", "choice.json", "report.md", "trials.csv"} <= names
    report = report_to_json(result.report)
    assert report["speedup"] > 1.5 and report["pays_back_after_s"] > 0 and report["phases"] == []
    assert report["search"]["counted"] == 3 and report["foretold"]["of"] == 2
    # By the model, one more worker or many: it is the workers that a loader of one lacks.
    assert report["search"]["importance"][0]["knob"] == "workers"
    assert report["search"]["importance"][0]["over_own"] > 1.5


def test_the_same_again_starts_nothing_and_more_trials_go_on(tmp_path: Path, experiment: Experiment) -> None:
    first = searched(tmp_path, experiment)
    journal = (tmp_path / "s" / "journal.jsonl").read_bytes()
    events = list[TuningEvent]()
    assert searched(tmp_path, experiment, events.append).hunt == first.hunt
    assert (tmp_path / "s" / "journal.jsonl").read_bytes() == journal
    assert [type(event).__name__ for event in events] == ["HuntMoved", "HuntMoved"]
    assert len(searched(tmp_path, experiment, trials=4).report.records) == 4


def stop_at(kind: type[Any], number: int) -> Notify:
    """Ctrl-C at the n-th event of a kind."""
    seen = list[TuningEvent]()

    def notify(event: TuningEvent) -> None:
        if isinstance(event, kind):
            seen.append(event)
            if len(seen) == number:
                raise KeyboardInterrupt

    return notify


def test_an_interrupt_ends_the_trial_keeps_all_and_goes_on_to_the_end(tmp_path: Path, experiment: Experiment) -> None:
    stopped = searched(tmp_path / "a", experiment, stop_at(TrialProgress, 8))
    assert stopped.interrupted and stopped.report.records[-1].status is TrialStatus.INTERRUPTED
    assert stopped.hunt.stage != "done" and (tmp_path / "a" / "s" / "report.md").exists()
    resumed = searched(tmp_path / "a", experiment)
    assert not resumed.interrupted and (resumed.hunt.stage, resumed.hunt.counted) == ("done", 3)
    assert [one.status for one in resumed.report.records].count(TrialStatus.COMPLETED) == 3


def test_an_interrupt_between_two_trials_loses_nothing(tmp_path: Path, experiment: Experiment) -> None:
    stopped = searched(tmp_path, experiment, stop_at(HuntMoved, 3))
    assert stopped.interrupted and [one.status for one in stopped.report.records] == [TrialStatus.COMPLETED] * 2


def test_a_second_interrupt_leaves_at_once_and_the_journal_as_it_is(tmp_path: Path, experiment: Experiment) -> None:
    with pytest.raises(KeyboardInterrupt):
        searched(tmp_path, experiment, stop_at(TrialStarted, 2))
    report = read_study_report(StudyPaths(tmp_path / "s"))
    assert [record.trial for record in report.records] == [1]
    assert report.search is not None and report.search.counted == 1


def test_a_disk_that_does_not_take_what_is_only_shown_does_not_end_the_search(
    tmp_path: Path, experiment: Experiment
) -> None:
    (tmp_path / "s" / "search.json").mkdir(parents=True)
    result = searched(tmp_path, experiment, trials=2)
    assert result.hunt.stage == "done" and result.report.search is None


def test_trials_of_another_config_count_for_nothing_and_are_named(tmp_path: Path, experiment: Experiment) -> None:
    searched(tmp_path, experiment, trials=2)
    config = {**(experiment.workload.config or {}), "learning_rate": 0.5}
    other = replace(experiment, workload=replace(experiment.workload, config=config))
    result = searched(tmp_path, other, trials=2)
    kept = read_search(StudyPaths(tmp_path / "s").search)
    assert kept is not None and kept.left_out == (1, 2) and kept.trials == (3, 4)
    assert {record.trial for record in result.report.compared} == {3, 4}
