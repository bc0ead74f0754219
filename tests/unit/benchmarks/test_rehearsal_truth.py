"""What is said to be true of the rehearsal: the arithmetic, the recorded runs and the config belong together."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from support.cli import ROOT

EMULATED = ROOT / "benchmarks" / "emulated"
SETTINGS = ("workers", "batch", "prefetch", "persistent")


@pytest.fixture
def config() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "configs" / "exp001_rehearsal.yaml").read_text(encoding="utf-8"))
    return found


@pytest.fixture
def brute_force(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EMULATED))
    import brute_force

    return brute_force


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    told = json.loads((EMULATED / "results" / "brute_force.json").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = told["rows"]
    return found


def within(row: dict[str, Any]) -> bool:
    return "failed" not in row and row["ram_peak_bytes"] <= 850e6 and row["vram_peak_bytes"] <= 0.95 * 800e6


def times(rows: list[dict[str, Any]], row: dict[str, Any]) -> float:
    users = next(row for row in rows if tuple(row[name] for name in SETTINGS) == (1, 1, 1, False))
    return float(row["samples_per_s_whole_run"] / users["samples_per_s_whole_run"])


def test_the_recorded_runs_were_of_this_config(
    rows: list[dict[str, Any]], config: dict[str, Any], brute_force: Any
) -> None:
    assert config["vtune"]["limits"] == {"ram": "850MB", "vram": "95%"}
    for row in rows:
        cell = brute_force.Cell(**{name: row[name] for name in SETTINGS})
        assert row["arithmetic_samples_per_s"] == pytest.approx(min(brute_force.arithmetic(cell, config)))


def test_within_the_limits_it_is_eight_to_nine_times_as_fast_and_eleven_or_more_without(
    rows: list[dict[str, Any]],
) -> None:
    best = max(filter(within, rows), key=lambda row: row["samples_per_s_whole_run"])
    assert (best["workers"], best["batch"], best["persistent"]) == (6, 2, False)
    assert 8 <= times(rows, best) <= 9
    assert max(times(rows, row) for row in rows if "failed" not in row) > 11


def test_twelve_workers_break_the_limit_and_a_batch_of_four_does_not_fit(rows: list[dict[str, Any]]) -> None:
    assert not any(within(row) for row in rows if row["workers"] in (8, 12) or row["batch"] == 4)
    assert all("OutOfMemoryError" in row["failed"] for row in rows if row["batch"] == 4)


def test_an_epoch_that_is_shorter_keeps_as_much_more_of_each_sample(config: dict[str, Any], brute_force: Any) -> None:
    cell = brute_force.Cell(workers=6, batch=2, prefetch=1, persistent=False)
    asked = brute_force.shortened(config, cell, 400)
    assert "vtune" not in asked
    assert asked["training"]["train_iterations_per_epoch"] * asked["data"]["kept_kb"] == pytest.approx(4000 * 10)
