"""`vtune search` with real trainings: to its end, stopped in the middle, killed, within its budget, and where nothing
fits."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.cli import ROOT, quiet_env, vtune

# It waits for its loader: each worker more makes it faster.
SCRIPT = ROOT / "tests" / "integration" / "phase" / "train.py"
TRAINING = [sys.executable, str(SCRIPT), "--num-workers", "1", "--batch-size", "2"]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "out"


def words(results: Path, *more: str) -> list[str]:
    asked = ["search", "--study", "s", "--results", str(results), "--no-confirm", "--steps", "20", *more]
    return [*asked, "--", *TRAINING]


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


def wait_for_steps(results: Path, trial: int) -> None:
    deadline = time.monotonic() + 90
    while not list(results.glob(f"s/trials/{trial:04d}/steps-*.bin")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_quickstart_is_searched_in_four_trials(results: Path) -> None:
    asked = [
        "search",
        "--config",
        ROOT / "configs" / "quickstart.yaml",
        "--results",
        results,
        "--no-confirm",
        "--steps",
        "20",
    ]
    said = vtune(*asked, "--trials", "4", timeout=500, COLUMNS="80")
    assert said.code == 0, said.stderr
    assert "\x1b" not in said.stdout + said.stderr and max(map(len, said.stdout.splitlines()[:30])) <= 80
    assert "which knob mattered" in said.stdout and "predicted against measured" in said.stdout
    assert "trial 1 of 4: the current settings" in said.stderr and "predicted → " in said.stderr
    told = vtune("report", "--results", results, "--json").json
    assert told["search"]["counted"] <= 4 == told["search"]["counted"] + told["search"]["given_back"]
    assert {one["origin"] for one in told["trials"]} == {"search"} and told["best"] is not None
    assert all(one["predicted"] for one in told["trials"][1:])


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_after_a_kill_it_goes_on_and_measures_nothing_twice(results: Path) -> None:
    asked = words(results, "--trials", "3", "--json")
    program = started(*asked)
    wait_for_steps(results, 2)
    program.kill()
    program.communicate(timeout=60)
    before = journal(results)
    assert [one["trial"] for one in before] == [1] and (results / "s" / "search.json").exists()
    said = vtune(*asked, timeout=200)
    assert said.code == 0, said.stderr
    after = journal(results)
    assert after[:1] == before and said.json["search"]["counted"] == 3
    done = Counter(json.dumps(one["asked"], sort_keys=True) for one in after if one["status"] == "completed")
    assert max(done.values()) == 1
    # Once more there is nothing left to do.
    assert vtune(*asked).json["search"] == said.json["search"] and journal(results) == after


@pytest.mark.slow
def test_an_interrupt_ends_within_ten_seconds_saves_and_says_how_to_go_on(results: Path) -> None:
    program = started(*words(results, "--trials", "7", "--budget", "10m", "--json"))
    wait_for_steps(results, 1)
    asked = time.monotonic()
    program.send_signal(signal.SIGINT)
    stdout, stderr = program.communicate(timeout=60)
    assert time.monotonic() - asked < 10
    assert program.returncode == 130, stderr
    told = json.loads(stdout)
    assert told["interrupted"] is True and told["trials"][-1]["status"] in ("interrupted", "completed")
    assert (results / "s" / "search.json").exists() and (results / "s" / "report.md").exists()
    go_on = shlex.split(stderr.rpartition("to go on: ")[2])
    assert go_on[:2] == ["vtune", "search"]
    plan = vtune(*go_on[1:], "--dry-run", "--json")
    assert plan.code == 0, plan.stderr
    assert plan.json["search"]["asked"] == {"trials": 7, "budget_s": 600.0} and plan.json["trials_at_most"] <= 7


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
    assert program.returncode == 130 and "to go on: vtune search" in stderr
    told = json.loads(stdout)
    assert told["interrupted"] is True and told["search"]["stage"] == "baseline"


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_budget_is_kept_within_one_trials_length(results: Path) -> None:
    began_s = time.monotonic()
    said = vtune(*words(results, "--trials", "30", "--budget", "15s", "--json"), timeout=300)
    whole_s = time.monotonic() - began_s
    assert said.code == 0, said.stderr
    took = [one["seconds"] for one in said.json["trials"]]
    assert sum(took) <= 15 + max(took)
    # Whatever else it takes, a scout run as well: vtune's own start and its looks between trials.
    assert whole_s <= 15 + max(took) + 2 + len(took)
    assert len(took) < 30 and "budget" in said.json["search"]["ended"]


def test_where_nothing_fits_the_limit_and_the_nearest_relaxation_are_named(results: Path) -> None:
    said = vtune(*words(results, "--trials", "2", "--ram-limit", "60MB"))
    assert said.code == 4, said.stderr
    assert "nothing feasible" in said.stdout and "--ram-limit" in said.stdout and "stopped: " in said.stdout
    told = vtune("report", "--results", results, "--json").json
    assert told["best"] is None and told["search"]["stopped"] and told["choice"]["nearest_relaxation"]["trial"]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_optunas_sampler_searches_the_same_space(results: Path) -> None:
    said = vtune(*words(results, "--trials", "3", "--sampler", "tpe", "--json"), timeout=300)
    assert said.code == 0, said.stderr
    assert said.json["search"]["sampler"] == "tpe" and len(said.json["trials"]) == 3
    asked = [json.dumps(one["asked"], sort_keys=True) for one in said.json["trials"]]
    assert len(set(asked)) == 3
