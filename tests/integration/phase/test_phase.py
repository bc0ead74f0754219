"""`vtune phase` with real trainings: to its end, stopped in the middle, killed at any moment, and gone on with."""

from __future__ import annotations

import json
import random
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.cli import quiet_env, vtune

TRAINING = [sys.executable, str(Path(__file__).with_name("train.py")), "--num-workers", "1", "--batch-size", "2"]
PLAN = "phases:\n  - turn: {workers: [2, 4]}\n  - turn: {prefetch_factor: [4]}\n"
KILLS = 20


@pytest.fixture
def results(tmp_path: Path) -> Path:
    (tmp_path / "own.yaml").write_text(PLAN)
    return tmp_path / "out"


def words(results: Path, *more: str) -> list[str]:
    plan = results.with_name("own.yaml")
    return [
        "phase", "--study", "s", "--results", str(results), "--plan", str(plan), "--no-confirm", "--steps", "20", *more,
        "--", *TRAINING,
    ]  # fmt: skip


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "vtune", *arguments], env=quiet_env(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def journal(results: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in (results / "s" / "journal.jsonl").read_text().splitlines()]
    except FileNotFoundError:
        return []


def completed(results: Path) -> dict[int, str]:
    """Trial → what it turned."""
    return {one["trial"]: json.dumps(one["asked"]) for one in journal(results) if one["status"] == "completed"}


def wait_for_steps(results: Path, trial: int) -> None:
    deadline = time.monotonic() + 60
    while not list(results.glob(f"s/trials/{trial:04d}/steps-*.bin")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)


@pytest.mark.slow
def test_the_phases_run_to_their_end_and_the_same_again_starts_nothing(results: Path) -> None:
    first = vtune(*words(results, "--json"))
    assert first.code == 0, first.stderr
    told = first.json
    assert [one["knob"] for one in told["phases"]] == ["workers", "prefetch_factor"]
    assert all(one["done"] for one in told["phases"]) and told["baseline"]["trial"] == 1
    assert told["trials"][0]["origin"] == "phase:0:baseline" and told["trials"][1]["origin"] == "phase:1:workers"
    assert told["trials"][1]["predicted"] is not None or told["trials"][1]["status"] == "completed"
    assert "✓ kept" in first.stderr or "✗ rolled back" in first.stderr
    before = (results / "s" / "journal.jsonl").read_bytes()
    again = vtune(*words(results, "--json"))
    assert again.code == 0 and again.json["phases"] == told["phases"]
    assert (results / "s" / "journal.jsonl").read_bytes() == before


def test_an_interrupt_ends_within_ten_seconds_saves_and_says_how_to_go_on(results: Path) -> None:
    program = started(*words(results, "--json"))
    wait_for_steps(results, 1)
    asked = time.monotonic()
    program.send_signal(signal.SIGINT)
    stdout, stderr = program.communicate(timeout=60)
    assert time.monotonic() - asked < 10
    assert program.returncode == 130, stderr
    told = json.loads(stdout)
    assert told["interrupted"] is True and told["trials"][-1]["status"] in ("interrupted", "completed")
    assert (results / "s" / "phases.json").exists() and (results / "s" / "report.md").exists()
    go_on = shlex.split(stderr.rpartition("to go on: ")[2])
    assert go_on[:2] == ["vtune", "phase"]
    plan = vtune(*go_on[1:], "--dry-run", "--json")
    assert plan.code == 0, plan.stderr
    assert plan.json["plan"]["name"] == "own" and plan.json["race_launches_at_most"] == 0


@pytest.mark.slow
def test_a_second_interrupt_leaves_at_once_with_what_was_told_so_far(results: Path) -> None:
    program = started(*words(results, "--json", "--steps", "1000"))
    wait_for_steps(results, 1)
    program.send_signal(signal.SIGINT)
    time.sleep(0.05)
    second = time.monotonic()
    program.send_signal(signal.SIGINT)
    stdout, stderr = program.communicate(timeout=30)
    assert time.monotonic() - second < 3
    assert program.returncode == 130 and "to go on: vtune phase" in stderr
    assert json.loads(stdout)["interrupted"] is True


@pytest.mark.slow
def test_a_study_that_another_vtune_uses_is_refused(results: Path) -> None:
    first = started(*words(results))
    wait_for_steps(results, 1)
    second = vtune(*words(results, "--json"))
    assert second.code == 2 and str(first.pid) in second.json["error"] and "--wait" in second.json["hint"]
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=60)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_twenty_kills_at_random_moments_lose_and_repeat_no_completed_trial(results: Path) -> None:
    dice = random.Random(20261119)
    kills, study, seen = 0, 1, dict[int, str]()

    def look() -> None:
        nonlocal seen
        found = completed(results.with_name(f"out-{study}"))
        assert seen.items() <= found.items(), "a completed trial was lost"
        assert max(Counter(found.values()).values(), default=1) == 1, "a completed trial was run again"
        seen = found

    while kills < KILLS:
        program = started(*words(results.with_name(f"out-{study}"), "--quiet", "--json"))
        try:
            program.communicate(timeout=dice.uniform(0.5, 6.5))
        except subprocess.TimeoutExpired:
            program.kill()
            program.communicate(timeout=60)
            kills += 1
        look()
        if program.returncode == 0:
            # At its end there is nothing left to kill but the telling.
            study, seen = study + 1, {}
    last = vtune(*words(results.with_name(f"out-{study}"), "--json"))
    assert last.code == 0, last.stderr
    look()
    numbers = [one["trial"] for one in journal(results.with_name(f"out-{study}"))]
    assert len(set(numbers)) == len(numbers)
    assert all(one["done"] for one in last.json["phases"])
