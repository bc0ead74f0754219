"""The benchmark of searches in real trials: what counts as a tie, its table, its spaces and their experiments."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from search import bargain
from support.cli import ROOT
from vtune.config.load import load_experiment
from vtune.knobs.ways import current_settings


@pytest.fixture
def benches(monkeypatch: pytest.MonkeyPatch) -> Any:
    # As the script has it: the traps' modules import each other by their bare names.
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "traps"))
    from search import benches

    return benches.BENCHES


def test_a_tie_is_a_small_loss_that_rounds_do_not_show_and_a_wide_interval_is_none() -> None:
    assert bargain.ties_or_beats(bargain.ratio([(99.0, 100.0), (101.0, 100.0), (99.5, 100.0)]))
    assert bargain.ties_or_beats(bargain.ratio([(120.0, 100.0), (121.0, 100.0), (119.0, 100.0)]))
    assert not bargain.ties_or_beats(bargain.ratio([(98.9, 100.0), (99.0, 100.0), (98.95, 100.0)]))
    assert not bargain.ties_or_beats(bargain.ratio([(50.0, 100.0), (150.0, 100.0), (80.0, 100.0)]))


def test_a_choice_that_does_not_come_to_its_end_beats_nothing() -> None:
    assert not bargain.ties_or_beats(bargain.ratio([(None, 100.0), (130.0, 100.0)]))
    assert bargain.ratio([(130.0, None)])[0] == math.inf


def row(auto_s: float, key: str = "workers 4") -> dict[str, Any]:
    searches = {
        "grid": {"seconds": 360.0, "trials": 24, "key": "workers 6"},
        "tpe": {"seconds": 300.0, "trials": 20, "key": "workers 6"},
        "auto": {"seconds": auto_s, "trials": 9, "key": key},
    }
    rounds = [{"workers 1": 10.0, "workers 4": fast, "workers 6": 40.0} for fast in (40.2, 39.8, 40.1)]
    return {"quick": False, "date": "2026-01-02", "version": "abc", "searches": searches, "rounds": rounds}


def test_the_table_says_whether_it_was_worth_it() -> None:
    told = {"machine": "a machine", "rows": {"one": row(90.0), "two": row(130.0), "three": row(90.0, "workers 6")}}
    lines = bargain.table_of(told).splitlines()
    assert lines[-3].endswith("| 0.25 | 0.30 | yes |") and "9, 1.5 min, workers 4 | 1.001 (0.9" in lines[-3]
    assert lines[-2].endswith("| 0.36 | 0.43 | **no** |"), "more than a third of the grid's time"
    assert "| the same settings | 0.25 | 0.30 | yes |" in lines[-1]


def test_a_search_without_an_answer_is_told_as_such() -> None:
    failed = row(90.0)
    failed["searches"]["tpe"] = {"seconds": 3.0, "failed": "it broke"}
    assert "| one | tpe: it broke |" in bargain.table_of({"machine": "m", "rows": {"one": failed}})


def test_each_grid_is_of_30_to_50_settings_with_the_users_own_among_them(benches: Any) -> None:
    assert [bench.name for bench in benches] == ["quickstart", "heavy_tail", "half_batch", "short_epochs"]
    for bench in benches:
        points = [dict(zip(bench.space, values, strict=True)) for values in itertools.product(*bench.space.values())]
        keys = {bench.key(one) for one in points}
        assert bench.size == len(keys) and 30 <= bench.size <= 50, bench.name
        assert bench.key(bench.own) in keys


def test_each_experiment_is_read_by_vtune_and_names_every_knob_that_is_searched(benches: Any, tmp_path: Path) -> None:
    for bench in benches:
        path = tmp_path / f"{bench.name}.yaml"
        path.write_text(yaml.safe_dump(bench.experiment(bench.space, "grid", tmp_path, False)), encoding="utf-8")
        experiment = load_experiment(path)
        values = {one.name: one.values for one in experiment.knobs}
        assert {knob: tuple(told) for knob, told in bench.space.items()}.items() <= values.items()
        assert all(len(told) == 1 for knob, told in values.items() if knob not in bench.space)
        own = current_settings(experiment)
        assert all(own.get(knob, bench.own[knob]) == bench.own[knob] for knob in bench.own)
