"""Whatever is killed, and whenever: the journal is readable, completed trials are kept, nothing is left behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cli import quiet_env, vtune

SCRIPT = Path(__file__).with_name("train_two_workers.py")
# Three of each victim.
KILLS = 12
# A DataLoader worker looks every five seconds whether its parent is still there.
GONE_WITHIN_S = 12.0


def of_this_study(results: Path) -> dict[int, str]:
    """Every process that carries a trial of this study in its environment: pid → what it is."""
    found = {}
    marker = f"VTUNE_TRIAL={results}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker in (entry / "environ").read_bytes():
                    found[int(entry.name)] = (entry / "comm").read_text().strip()
            except OSError:
                continue
    return found


def supervisors(results: Path) -> set[int]:
    """Those that still run: the start time tells one from a later process with its number."""
    found = set()
    for path in results.glob("s/**/supervisor.json"):
        told = json.loads(path.read_text())
        try:
            stat = Path(f"/proc/{told['supervisor_pid']}/stat").read_text()
        except OSError:
            continue
        state, *rest = stat.rpartition(")")[2].split()
        if state != "Z" and int(rest[18]) == told["supervisor_started_ticks"]:
            found.add(told["supervisor_pid"])
    return found


def groups(results: Path) -> set[str]:
    """Control groups of this study's trials that are still there."""
    named = {json.loads(path.read_text()).get("group") for path in results.glob("s/**/supervisor.json")}
    return {path for path in named if path and os.path.exists(path)}


def own_tmpdirs() -> set[str]:
    import tempfile

    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("vt-")}


def leader_of(results: Path) -> int | None:
    """From the newest trial's supervisor.json, as long as it runs."""
    for path in sorted(results.glob("s/trials/*/supervisor.json"), reverse=True):
        leader = json.loads(path.read_text()).get("leader_pid")
        return leader if leader in of_this_study(results) else None
    return None


def worker_of(results: Path) -> int | None:
    leader = leader_of(results)
    workers = [pid for pid, name in of_this_study(results).items() if name == "pt_data_worker" and pid != leader]
    return workers[0] if workers else None


VICTIMS: dict[str, Callable[[int, Path], int | None]] = {
    "vtune": lambda pid, results: pid,
    "supervisor": lambda pid, results: next(iter(supervisors(results)), None),
    "leader": lambda pid, results: leader_of(results),
    "worker": lambda pid, results: worker_of(results),
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.timing
def test_kills_at_random_moments_lose_nothing_and_leave_nothing(tmp_path: Path) -> None:
    results = tmp_path / "out"
    arguments = [
        "probe",
        "--study",
        "s",
        "--results",
        str(results),
        "--quiet",
        "--json",
        "--",
        sys.executable,
        str(SCRIPT),
    ]
    first = vtune(*arguments)
    assert first.code == 0, first.stderr
    completed = {1: first.json["trial"]["samples_per_s"]}
    shm_before, tmp_before = set(os.listdir("/dev/shm")), own_tmpdirs()
    dice = random.Random(20261118)
    killed = dict.fromkeys(VICTIMS, 0)
    for round_number in range(KILLS):
        name = list(VICTIMS)[round_number % len(VICTIMS)]
        program = subprocess.Popen(
            [sys.executable, "-m", "vtune", *arguments], env=quiet_env(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        time.sleep(dice.uniform(0.3, 5.0))
        give_up = time.monotonic() + 15
        victim = None
        while victim is None and program.poll() is None and time.monotonic() < give_up:
            victim = VICTIMS[name](program.pid, results)
            time.sleep(0.02)
        if victim is not None and program.poll() is None:
            os.kill(victim, signal.SIGKILL)
            killed[name] += 1
        stdout, stderr = program.communicate(timeout=60)
        if name == "vtune":
            assert program.returncode in (-signal.SIGKILL, 0)
        else:
            # vtune lives on and says how the training ended, in the normal object.
            assert program.returncode in (0, 5, 130), stderr
            record = json.loads(stdout)["trial"]
            if record["status"] == "completed":
                completed[record["trial"]] = record["samples_per_s"]
        deadline = time.monotonic() + GONE_WITHIN_S
        while (of_this_study(results) or supervisors(results)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not of_this_study(results), f"left by killing {name}"
        assert not supervisors(results)
        assert not groups(results)
    assert all(killed.values()), killed
    last = vtune(*arguments)
    assert last.code == 0, last.stderr
    completed[last.json["trial"]["trial"]] = last.json["trial"]["samples_per_s"]
    lines = [json.loads(line) for line in (results / "s" / "journal.jsonl").read_text().splitlines()]
    kept = {line["trial"]: line["samples_per_s"] for line in lines if line["status"] == "completed"}
    assert completed.items() <= kept.items()
    assert len({line["trial"] for line in lines}) == len(lines), "a trial number was used twice"
    assert set(os.listdir("/dev/shm")) <= shm_before
    assert own_tmpdirs() <= tmp_before


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=pytest.mark.slow) for how in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
)
def test_an_interrupt_keeps_what_was_measured_and_says_so(tmp_path: Path, how: signal.Signals) -> None:
    results = tmp_path / "out"
    program = subprocess.Popen(
        [sys.executable, "-m", "vtune", "probe", "--study", "s", "--results", str(results), "--json", "--steps", "1000",
         "--", sys.executable, str(SCRIPT)],
        env=quiet_env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not list(results.glob("s/trials/0001/steps-*.bin")) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1.0)
    asked = time.monotonic()
    program.send_signal(how)
    stdout, stderr = program.communicate(timeout=60)
    assert time.monotonic() - asked < 10
    assert program.returncode == 130, stderr
    record = json.loads(stdout)["trial"]
    assert record["status"] == "interrupted" and record["steps_measured"] > 0
    assert "vtune probe" in stderr, "how to go on is said"
    [line] = (results / "s" / "journal.jsonl").read_text().splitlines()
    assert json.loads(line)["status"] == "interrupted"
    assert not of_this_study(results)


def test_a_second_interrupt_leaves_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    results, deaf = tmp_path / "out", tmp_path / "deaf"
    training = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open(sys.argv[1], 'w');time.sleep(60)"
    )
    program = subprocess.Popen(
        [sys.executable, "-m", "vtune", "probe", "--study", "s", "--results", str(results), "--json", "--",
         sys.executable, "-c", training, str(deaf)],
        env=quiet_env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while not deaf.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    program.send_signal(signal.SIGINT)
    time.sleep(0.5)
    second = time.monotonic()
    program.send_signal(signal.SIGINT)
    stdout, _ = program.communicate(timeout=30)
    assert time.monotonic() - second < 3
    assert program.returncode == 130
    told = json.loads(stdout)
    assert told["trial"] is None and (told["why"], told["next"], told["headroom"]) == ([], [], None)
    assert not of_this_study(results)


@pytest.mark.slow
def test_two_vtunes_on_one_study_never_mix(tmp_path: Path) -> None:
    results = tmp_path / "out"
    arguments = ["probe", "--study", "s", "--results", str(results), "--json", "--", sys.executable, str(SCRIPT)]
    first = subprocess.Popen(
        [sys.executable, "-m", "vtune", *arguments], env=quiet_env(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while not (results / "s" / "trials" / "0001").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    second = vtune(*arguments)
    assert second.code == 2 and str(first.pid) in second.json["error"] and "--wait" in second.json["hint"]
    waiting = vtune(*arguments[:1], "--wait", *arguments[1:])
    stdout, _ = first.communicate(timeout=60)
    assert waiting.code == 0 and json.loads(stdout)["trial"]["trial"] == 1 and waiting.json["trial"]["trial"] == 2


@pytest.mark.slow
def test_an_interrupt_during_the_scout_run_ends_all_of_it(tmp_path: Path) -> None:
    results = tmp_path / "out"
    program = subprocess.Popen(
        [sys.executable, "-m", "vtune", "probe", "--study", "s", "--results", str(results), "--json", "--set",
         "prefetch_factor=3", "--", sys.executable, str(SCRIPT)],
        env=quiet_env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while not (results / "s" / "scout" / "pythons.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    program.send_signal(signal.SIGINT)
    stdout, stderr = program.communicate(timeout=60)
    assert program.returncode == 130, stderr
    assert json.loads(stdout)["trial"]["status"] == "interrupted"
    assert not (results / "s" / "scout.json").exists()
    assert not of_this_study(results)
