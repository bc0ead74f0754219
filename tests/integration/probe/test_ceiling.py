"""`vtune probe --ceiling` of trainings whose costs are known: rates by arithmetic, and all the ends of a ladder.

On a machine that others use the rates come out too low, never too high.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.cli import Said, vtune

SCRIPTS = Path(__file__).parent / "scripts"
BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
# 10 ms a sample in the loader, 20 in the training: sleeping is exact to some 0.1 ms, a batch costs the rest.
LOAD, COMPUTE = 0.010, 0.020

pytestmark = pytest.mark.slow


def probe(results: Path, *options: object, script: str = "known_costs.py", **env: str) -> Said:
    command = (sys.executable, SCRIPTS / script, *options)
    arguments = ("probe", "--ceiling", "--json", "--steps", "10", "--results", str(results), "--", *map(str, command))
    said = vtune(*arguments, **env)
    assert said.code == 0, said.stderr
    return said


def ceiling_of(results: Path, *options: object) -> dict[str, Any]:
    options = ("--load", LOAD, "--compute", COMPUTE, "--memory-at", 8, *options)
    found: dict[str, Any] = probe(results, *options).json["ceiling"]
    assert found["status"] == "completed", found
    return found


def is_by_arithmetic(
    found: dict[str, Any], *, workers: int, compute: float = 1 / COMPUTE, within: float = 0.10
) -> None:
    assert found["compute_samples_per_s"] == pytest.approx(compute, rel=within)
    assert found["loader_samples_per_s"] == pytest.approx(max(1, workers) / LOAD, rel=1.2 * within)


def no_more_than_8_fit(found: dict[str, Any]) -> None:
    assert [(rung["batch_size"], rung["fits"]) for rung in found["ladder"]] == [(4, True), (8, True), (16, False)]
    assert found["largest_batch"] == 8
    assert "batch 16 does not fit" in found["ended_because"] and "OutOfMemoryError" in found["ended_because"]


@pytest.mark.timing
@pytest.mark.parametrize(
    ("options", "workers"),
    [
        (("--workers", 0), 0),
        (("--workers", 2, "--spawn"), 2),
        (("--workers", 2, "--loop", "persistent", "--length", 100), 2),
        (("--workers", 1, "--length", 60), 1),
    ],
    ids=["none", "spawned", "persistent", "short"],
)
def test_both_rates_are_those_of_arithmetic_and_what_does_not_fit_ends_the_ladder(
    tmp_path: Path, options: tuple[object, ...], workers: int
) -> None:
    found = ceiling_of(tmp_path / "out", *options)
    is_by_arithmetic(found, workers=workers)
    no_more_than_8_fit(found)


@pytest.mark.parametrize(
    "loop", [("--iterable",), ("--loop", "anew"), ("--loop", "validation")], ids=lambda loop: loop[-1]
)
def test_no_loop_miscounts_the_samples_of_its_rates(tmp_path: Path, loop: tuple[object, ...]) -> None:
    """Beside others near enough: a batch that was counted twice or missed would double or halve a rate."""
    found = ceiling_of(tmp_path / "out", "--workers", 2, *loop)
    is_by_arithmetic(found, workers=2, within=0.35)
    no_more_than_8_fit(found)


@pytest.mark.timing
def test_a_new_iterator_for_each_step_is_no_part_of_its_computing(tmp_path: Path) -> None:
    found = ceiling_of(tmp_path / "out", "--loop", "next_iter", "--length", 80)
    # Ending and starting two workers takes as long as the step itself, and more cores than there may be.
    assert 0.75 / COMPUTE < found["compute_samples_per_s"] < 1.05 / COMPUTE
    no_more_than_8_fit(found)


@pytest.mark.timing
def test_accumulation_changes_no_rate(tmp_path: Path) -> None:
    found = ceiling_of(tmp_path / "out", "--accumulate", 4, "--a-step", 0.08)
    is_by_arithmetic(found, workers=2, compute=16 / (16 * COMPUTE + 0.08))
    own = found["ladder"][0]
    assert own["step_s"] == pytest.approx(16 * COMPUTE + 0.08, rel=0.10)
    assert own["batch_size"] == 4 and own["samples_per_s"] * own["step_s"] == pytest.approx(16, rel=1e-6)


def test_a_training_that_catches_its_running_out_of_memory_is_noticed(tmp_path: Path) -> None:
    found = ceiling_of(tmp_path / "out", "--catch")
    assert found["largest_batch"] == 8 and found["ladder"][-1]["fits"] is False
    assert "made no step" in found["ended_because"]


def test_a_training_made_for_one_batch_size_says_so_and_is_no_failure(tmp_path: Path) -> None:
    found = ceiling_of(tmp_path / "out", "--fixed", 4)
    assert [rung["batch_size"] for rung in found["ladder"]] == [4]
    assert "made for batches of 4" in found["ended_because"] and "at batch 8" in found["ended_because"]


def test_without_growth_the_ladder_ends_and_all_is_left_in_order(tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = probe(out, "--load", 0.001, "--compute", 0.004)
    told = said.json["ceiling"]
    assert "has not grown" in told["ended_because"] or "cannot be measured" in told["ended_because"]
    assert all(rung["fits"] and rung["ram_peak_bytes"] > 2**20 for rung in told["ladder"])
    [journal] = out.glob("*/journal.jsonl")
    first, second = map(json.loads, journal.read_text().splitlines())
    assert (first["origin"], second["origin"]) == ("probe", "probe:ceiling")
    assert second["samples_per_s"] is None and second["ceiling"]["ladder"] == told["ladder"]
    assert second["trial"] == told["trial"] and second["evidence"]["ended_by"] == "window"
    # By the stop protocol: the training ended itself, with nothing left behind.
    outcome = json.loads((journal.parent / "trials" / "0002" / "outcome.json").read_text())
    assert outcome["exit_code"] == 0 and not outcome["stragglers"] and not outcome["shm_removed"]
    report = vtune("report", "--json", "--results", out)
    assert report.code == 0, report.stderr
    assert report.json["best"]["trial"] == 1
    assert {lost["trial"]: lost["reason"] for lost in report.json["choice"]["lost"]} == {2: "ceiling"}


def test_a_ram_limit_ends_the_ladder_before_it_is_reached(tmp_path: Path) -> None:
    command = (sys.executable, SCRIPTS / "known_costs.py", "--load", "0.001", "--compute", "0.004")
    probe = ("probe", "--json", "--steps", "10", "--results", tmp_path / "out")
    # What torch itself takes differs from build to build.
    plain = vtune(*probe, "--", *command).json["trial"]["ram_peak_bytes"]
    said = vtune(*probe, "--ceiling", "--ram-limit", f"{plain * 5 // 4 >> 20}MiB", "--", *command)
    assert said.json["trial"]["status"] == "completed", said.json["trial"]["detail"]
    found = said.json["ceiling"]
    assert "of RAM" in found["ended_because"] and len(found["ladder"]) >= 1


@pytest.mark.timing
@pytest.mark.parametrize("every_step", [True, False], ids=["synchronized", "running-ahead"])
def test_on_a_device_its_own_time_counts_and_its_memory_is_told_by_size(tmp_path: Path, every_step: bool) -> None:
    """Emulated: not yet run on a GPU. The script itself stops when its own view of the peaks is not what it expects."""
    options = ["--every-step"] if every_step else []
    told = probe(tmp_path / "out", *options, script="known_costs_on_a_device.py", PYTHONPATH=str(BENCHMARKS)).json
    found = told["ceiling"]
    assert found["largest_batch"] == 32 and "batch 64 does not fit" in found["ended_because"]
    rungs = [rung for rung in found["ladder"] if rung["fits"]]
    assert [rung["vram_peak_bytes"] / 2**20 for rung in rungs] == [10 + 100 * rung["batch_size"] for rung in rungs]
    # 4 ms a sample, and what the CPU takes to launch it.
    assert 200 < rungs[0]["samples_per_s"] < 252 and 220 < rungs[-1]["samples_per_s"] < 252


def test_where_the_trial_fails_there_is_no_second_launch(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\nraise ValueError('before any step')\n")
    said = vtune("probe", "--ceiling", "--json", "--results", tmp_path / "out", "--", sys.executable, script)
    assert said.code == 5 and said.json["ceiling"] is None
    assert any("ceiling was not looked for" in note for note in said.json["trial"]["notes"])
