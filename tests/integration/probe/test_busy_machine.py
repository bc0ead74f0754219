"""Real programs on every core, beside a real training."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.cli import Said, quiet_env, vtune
from support.others import CORES, LOOKS, burners, skip_where_others_are
from vtune.analysis.others_words import STOP_THEM
from vtune.domain.others import LEAST_BUSY_CORES
from vtune.telemetry.other_programs import VARIABLE

PLAIN = Path(__file__).parent / "scripts" / "plain.py"
# The machine is to be busy by these alone, and quiet without them.
pytestmark = [pytest.mark.slow, pytest.mark.timing]


def probe(out: Path, *more: str, script: Path = PLAIN) -> Said:
    return vtune("probe", "--study", "s", "--results", out, *more, "--", sys.executable, script, **LOOKS)


def named(error: str) -> set[int]:
    return {int(pid) for pid in re.findall(r"pid (\d+) ", error)}


def test_burners_on_every_core_are_named_and_nothing_is_started(tmp_path: Path) -> None:
    skip_where_others_are()
    with burners(CORES) as others:
        said = probe(tmp_path, "--busy-wait", "2s", "--json")
    error = said.json
    assert said.code == error["exit_code"] == 3 and set(error) == {"error", "hint", "exit_code"}
    assert re.match(rf"Cannot measure: other programs use [\d.]+ of {CORES} cores \(", error["error"])
    assert {process.pid for process in others} & named(error["error"]) and error["hint"] == STOP_THEM
    assert "Waiting up to" in said.stderr
    assert not list((tmp_path / "s" / "trials").glob("*/spec.json"))


@pytest.mark.skipif(CORES < 2, reason="one of two is to leave")
def test_one_that_leaves_during_the_wait_leaves_a_busy_machine(tmp_path: Path) -> None:
    with burners(CORES) as others:
        asked = ["probe", "--study", "s", "--results", str(tmp_path), "--busy-wait", "4s"]
        command = subprocess.Popen(
            [sys.executable, "-m", "vtune", *asked, "--", sys.executable, str(PLAIN)],
            env=quiet_env(**LOOKS), text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        time.sleep(2.5)
        others[0].kill()
        _, said = command.communicate(timeout=60)
    assert command.returncode == 3 and "error: Cannot measure" in said
    assert others[0].pid not in named(said.partition("error:")[2])


def test_who_comes_in_the_middle_of_a_trial_ends_it_without_a_verdict(tmp_path: Path) -> None:
    skip_where_others_are()
    asked = ["probe", "--study", "s", "--results", str(tmp_path), "--json", "--steps", "400"]
    command = subprocess.Popen(
        [sys.executable, "-m", "vtune", *asked, "--", sys.executable, str(PLAIN)],
        env=quiet_env(**LOOKS), text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    until = time.monotonic() + 80
    while not list((tmp_path / "s" / "trials").glob("*/steps*")):
        assert command.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    with burners(CORES):
        out, _ = command.communicate(timeout=100)
    error = json.loads(out)
    assert command.returncode == 3 and "while trial 1 ran" in error["error"]
    record: dict[str, Any] = json.loads((tmp_path / "s" / "journal.jsonl").read_text())
    assert record["others"]["busy"] and record["bottleneck"] == "unknown" and record["headroom"] is None
    assert record["what_if"] == [] and record["why"] == []


@pytest.mark.parametrize("name", ["anew_each_epoch", "spawn_workers"])
def test_a_trainings_own_workers_are_no_others(tmp_path: Path, name: str) -> None:
    skip_where_others_are()
    said = probe(tmp_path, "--json", script=PLAIN.with_stem(name))
    others = said.json["trial"]["others"]
    assert said.code == 0 and not others["busy"] and others["taken"] < LEAST_BUSY_CORES


def test_anyway_measures_and_marks_every_number(tmp_path: Path) -> None:
    with burners(CORES):
        said = probe(tmp_path, "--anyway", "--json")
        shown = probe(tmp_path, "--anyway")
    trial = said.json["trial"]
    assert said.code == shown.code == 0 and trial["samples_per_s"] > 0 and trial["others"]["busy"]
    assert said.json["headroom"] is None and said.json["verdict"].startswith("no verdict")
    numbers = [line for line in shown.stdout.splitlines() if "samples/s" in line]
    assert numbers and all("busy machine" in line for line in numbers)


def test_the_switch_that_ignores_others_is_told_in_every_record(tmp_path: Path) -> None:
    said = vtune("probe", "--study", "s", "--results", tmp_path, "--json", "--", sys.executable, PLAIN)
    trial = said.json["trial"]
    assert trial["others"] is None and any(VARIABLE in note for note in trial["notes"])
