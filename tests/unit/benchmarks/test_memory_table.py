"""The benchmark of memory: its verdicts and its table."""

from __future__ import annotations

from typing import Any

import pytest

from memory import run


def row(projected: int | None = 110, true: int = 100, *, named: bool = True) -> dict[str, Any]:
    return {
        "projected": projected, "interval": [90, 105], "true": true,
        "growth": [["leak", "main"]], "named_as_it_is": named,
        "date": "2026-01-02", "commit": "abc1234",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("one", "passes"),
    [
        (row(), True),
        (row(116), False),
        (row(84), False),
        (row(named=False), False),
        (row(None), False),
        ({"error": "TimeoutError"}, False),
    ],
)
def test_a_case_passes_near_the_truth_and_under_its_right_name(one: dict[str, Any], passes: bool) -> None:
    assert run.passed(one) is passes


def test_the_table_names_its_versions_and_hides_no_failure() -> None:
    broken = {"error": "TimeoutError", "date": "2026-01-03", "commit": "def5678"}
    told = {
        "machine": "2 cores",
        "side_by_side": 2,
        "rows": {"a": row(), "b": row(named=False), "c": broken, "d": None},
    }
    text = run.table(told)
    assert "2026-01-02 (version abc1234), 2026-01-03 (version def5678)" in text
    assert "| a | 0 | 0 to 0 | 0 | +10.0 % | yes | pass |" in text and "covers in 2 of 2" in text
    assert "**fail** (found: leak main)" in text and "| c | - | - | - | TimeoutError | - | **fail** |" in text


def test_an_interval_that_misses_the_truth_is_told() -> None:
    assert run.covers(row()) and not run.covers(row(true=120)) and not run.covers({**row(), "interval": None})


def test_each_kind_of_growth_and_none_is_among_the_cases() -> None:
    kinds = {growth for case in run.CASES.values() for growth in case.growth}
    assert kinds == {("leak", "main"), ("leak", "workers"), ("copy_on_write", "workers")}
    assert any(not case.growth for case in run.CASES.values())
