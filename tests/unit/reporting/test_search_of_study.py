"""search.json: what was searched is read back as it was written, and foreign or torn files are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.hunts import IMPORTANCE, RECORDS, SPACE, a_hunt, an_end
from support.studies import a_trial, write_study
from support.walks import ASKED, a_walk
from vtune.domain.experiment import Limit, Limits
from vtune.reporting.phases_of_study import phases_of, write_phases
from vtune.reporting.report_json import report_to_json
from vtune.reporting.search_of_study import read_search, search_of, write_search
from vtune.reporting.study_report import read_study_report

LIMITS = Limits(ram=Limit(bytes=24 * 2**30, text="24GiB"))


@pytest.mark.parametrize("hunt", [a_hunt(), an_end(), an_end(stopped="nothing fits", baseline=None, best=None)])
def test_what_was_searched_reads_back_as_it_was_written(tmp_path: Path, hunt: Any) -> None:
    search = search_of(
        hunt, SPACE, trials=20, budget_s=1800.0, limits=LIMITS, left_out=frozenset({9, 8}), importance=IMPORTANCE
    )
    write_search(tmp_path / "search.json", search)
    assert read_search(tmp_path / "search.json") == search
    assert (search.best, search.left_out, search.ram_limit) == (2 if hunt.best else None, (8, 9), "24GiB")
    assert search.dimensions == SPACE.dimensions and search.next_best == hunt.next_best


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"schema": 2}', '{"schema": 1}', '{"schema": 1, "asked": 1}', "[" * 100_000]
)
def test_what_is_no_search_json_of_this_vtune_is_none(tmp_path: Path, text: str) -> None:
    assert read_search(tmp_path / "search.json") is None
    (tmp_path / "search.json").write_text(text)
    assert read_search(tmp_path / "search.json") is None


def test_numbers_that_are_none_do_not_reach_a_report(tmp_path: Path) -> None:
    write_search(tmp_path / "search.json", search_of(a_hunt(), SPACE, trials=20, importance=IMPORTANCE))
    told = json.loads((tmp_path / "search.json").read_text())
    told["importance"][0]["over_own"] = "much"
    (tmp_path / "search.json").write_text(json.dumps(told))
    assert read_search(tmp_path / "search.json") is None


def test_the_json_has_what_is_promised_of_a_search(tmp_path: Path) -> None:
    study = write_study(tmp_path, *RECORDS)
    write_search(study.search, search_of(an_end(), SPACE, trials=20, importance=IMPORTANCE))
    told = report_to_json(read_study_report(study))
    assert {"study", "baseline", "best", "speedup", "speedup_ci95", "tie", "trials", "phases"} <= set(told)
    assert told["phases"] == [] and told["best"]["trial"] == 2
    search = told["search"]
    assert (search["counted"], search["given_back"], search["asked"]["trials"]) == (4, 16, 20)
    assert search["space"]["not_turned"] == list(SPACE.left_out) and search["space"]["settings"] == 40
    assert search["importance"][0]["knob"] == "workers"
    spent = sum(record.seconds for record in RECORDS)
    assert told["tuning_s"] == pytest.approx(spent)
    assert told["pays_back_after_s"] == pytest.approx(spent / (told["speedup"] - 1))
    [front] = told["fronts"]
    assert front["memory"] == "RAM" and [one["trial"] for one in front["trials"]] == [1, 3, 2]
    assert front["trials"][1]["needs_bytes"] == 2 * 2**30
    # 39 was 39.2, and 30 was 19.6; what failed has no rate.
    assert (told["foretold"]["inside"], told["foretold"]["of"]) == (1, 2)
    assert [one["inside"] for one in told["foretold"]["trials"]] == [True, False, None]
    json.dumps(told, allow_nan=False)


def test_a_study_without_a_search_says_so_with_the_same_keys(tmp_path: Path) -> None:
    searched, without = write_study(tmp_path, *RECORDS, name="a"), write_study(tmp_path, *RECORDS, name="b")
    write_search(searched.search, search_of(an_end(), SPACE, trials=20))
    told = report_to_json(read_study_report(without))
    assert set(told) == set(report_to_json(read_study_report(searched)))
    assert told["search"] is None and told["tuning_s"] is None


def test_phases_and_a_search_of_one_study_are_told_together(tmp_path: Path) -> None:
    study = write_study(tmp_path, *RECORDS, a_trial(5, 12.0, asked={"workers": 3}))
    write_phases(study.phases, phases_of(a_walk(trials=(1, 2)), ASKED, left_out=frozenset({3, 4, 5})))
    write_search(study.search, search_of(an_end(trials=(2, 3, 4)), SPACE, trials=20, left_out=frozenset({5})))
    report = read_study_report(study)
    # Whoever was at work last knows which trials are of another training.
    assert [record.trial for record in report.compared] == [1, 2, 3, 4] and report.tuned_by == (1, 2, 3, 4)
    told = report_to_json(report)
    assert told["phases"] and told["search"]
    assert told["tuning_s"] == pytest.approx(sum(record.seconds for record in RECORDS))
