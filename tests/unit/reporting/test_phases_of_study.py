"""phases.json: what was walked is read back as it was written, and foreign or torn files are none."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.studies import a_trial, write_study
from support.walks import ASKED, MISSED, OPTION_A, RECORDS, a_rung, a_walk, an_end, climbed
from vtune.domain.experiment import Limit, Limits
from vtune.domain.repeated import Repeats
from vtune.reporting.phases_of_study import PhasesOfStudy, phases_of, read_phases, write_phases
from vtune.reporting.report_json import report_to_json
from vtune.reporting.study_report import read_study_report

LIMITS = Limits(ram=Limit(bytes=24 * 2**30, text="24GiB"))


def written(path: Path, phases: PhasesOfStudy) -> PhasesOfStudy | None:
    write_phases(path, phases)
    return read_phases(path)


@pytest.mark.parametrize("walk", [a_walk(), an_end(), an_end(stopped="nothing to build on", baseline=None, best=None)])
def test_what_was_walked_reads_back_as_it_was_written(tmp_path: Path, walk: Any) -> None:
    phases = phases_of(walk, replace(ASKED, up_to=2), limits=LIMITS, missed=MISSED, left_out=frozenset({9, 8}))
    found = written(tmp_path / "phases.json", phases)
    assert found is not None
    assert (found.plan, found.up_to, found.of, found.stage, found.stopped) == ("ladder", 2, 3, walk.stage, walk.stopped)
    assert (found.baseline, found.best) == ((1, 3) if walk.baseline else (None, None))
    assert [outcome.rungs for outcome in found.phases] == [outcome.rungs for outcome in walk.phases]
    assert [outcome.kept for outcome in found.phases] == [outcome.kept for outcome in walk.phases]
    assert found.missed == MISSED and found.left_out == (8, 9) and found.ram_limit == "24GiB"
    assert [one.predicted for one in found.options] == [one.predicted for one in walk.options]
    # Once more, nothing is lost.
    assert written(tmp_path / "again.json", found) == found


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"schema": 2}', '{"schema": 1}', '{"schema": 1, "plan": {"name": 1}}', "[" * 100_000],
)
def test_what_is_no_phases_json_of_this_vtune_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "phases.json"
    assert read_phases(path) is None
    path.write_text(text)
    assert read_phases(path) is None


def test_numbers_that_are_none_do_not_reach_a_report(tmp_path: Path) -> None:
    path = tmp_path / "phases.json"
    write_phases(path, phases_of(a_walk(), ASKED))
    told = json.loads(path.read_text())
    told["phases"][0]["rungs"][0]["gain"] = "fast"
    path.write_text(json.dumps(told))
    assert read_phases(path) is None


def test_steps_and_options_that_would_repeat_data_read_back_with_the_reason(tmp_path: Path) -> None:
    skipped = a_rung(turned={"workers": 6}, state="skipped", why="they repeat data", repeats=Repeats.SAME_NUMBERS)
    phases = (replace(climbed()[0], rungs=(skipped,)), *climbed()[1:])
    [option] = an_end().options
    option = replace(option, trial=None, repeats=Repeats.NEXT_RECORD, batch=(4, 2))
    walk = an_end(phases=phases, options=(option,))
    found = written(tmp_path / "phases.json", phases_of(walk, ASKED))
    assert found is not None and found.phases[0].rungs == (skipped,)
    assert (found.options[0].repeats, found.options[0].batch) == (Repeats.NEXT_RECORD, (4, 2))
    study = write_study(tmp_path, *RECORDS)
    write_phases(study.phases, phases_of(walk, ASKED))
    told = report_to_json(read_study_report(study))["options"][0]
    assert told["repeats"] == "next_record" and "effective batch 4 instead of 2" in told["another_training"]


def test_the_json_has_what_is_promised_of_each_phase_and_adds_what_was_measured(tmp_path: Path) -> None:
    study = write_study(tmp_path, *RECORDS, OPTION_A)
    write_phases(study.phases, phases_of(an_end(), ASKED, missed=MISSED))
    told = report_to_json(read_study_report(study))
    assert {"study", "baseline", "best", "speedup", "speedup_ci95", "tie", "trials", "phases"} <= set(told)
    workers, batch, prefetch = told["phases"]
    assert (workers["phase"], workers["knob"], workers["kept"]) == (1, "workers", {"workers": 4})
    assert workers["rejected"] == [{"workers": 6}] and workers["why"].startswith("workers=4: 3.9×")
    assert workers["rungs"][1]["predicted"]["samples_per_s"] == 41.0
    # By what the study ranks by: here, a whole run's rate.
    assert workers["rungs"][1]["measured_samples_per_s"] == pytest.approx(39.0 * 0.98)
    assert "effective batch 2 instead of 1" in batch["rungs"][0]["another_training"]
    assert batch["kept"] == {} and prefetch["why"] == "it is set already"
    [option] = told["options"]
    assert (
        option["option"] == "A"
        and option["measured_samples_per_s"] == pytest.approx(40.5 * 0.98)
        and option["trial"] == 6
    )
    assert option["speedup"] == pytest.approx(4.05, rel=0.01)
    assert told["missed"]["least_gain"] == 1.12 and told["plan"]["name"] == "ladder"
    spent = sum(record.seconds for record in (*RECORDS, OPTION_A))
    assert told["tuning_s"] == pytest.approx(spent)
    assert told["pays_back_after_s"] == pytest.approx(spent / (told["speedup"] - 1))
    json.dumps(told, allow_nan=False)


def test_a_study_without_phases_says_so_with_the_same_keys(tmp_path: Path) -> None:
    with_phases, without = write_study(tmp_path, *RECORDS, name="a"), write_study(tmp_path, *RECORDS, name="b")
    write_phases(with_phases.phases, phases_of(an_end(), ASKED))
    told = report_to_json(read_study_report(without))
    assert set(told) == set(report_to_json(read_study_report(with_phases)))
    assert told["phases"] == [] and told["plan"] is None and told["tuning_s"] is None


def test_a_trial_of_another_command_is_shown_and_not_compared(tmp_path: Path) -> None:
    faster = a_trial(5, 60.0, asked={"workers": 4, "batch_size": 2}, batch=2)
    study = write_study(tmp_path, *RECORDS[:4], faster)
    assert read_study_report(study).choice.best.trial == 5
    write_phases(study.phases, phases_of(a_walk(), ASKED, left_out=frozenset({5})))
    report = read_study_report(study)
    assert report.choice.best.trial == 3 and [record.trial for record in report.compared] == [1, 2, 3, 4]
    lost = next(one for one in report.choice.lost if one.trial == 5)
    assert lost.reason == "other_training" and len(report.records) == 5


def test_a_report_knows_how_long_the_scout_run_of_its_walk_took(tmp_path: Path) -> None:
    paths = write_study(tmp_path, *RECORDS)
    paths.scout.root.mkdir()
    paths.scout.spec.write_text('{"trial": 2}')
    paths.scout.outcome.write_text('{"seconds": 12.5}')
    write_phases(paths.phases, phases_of(an_end(), ASKED, limits=LIMITS))
    assert read_study_report(paths).scout_s == pytest.approx(12.5)
    paths.scout.spec.write_text('{"trial": 40}')
    assert read_study_report(paths).scout_s == 0.0
