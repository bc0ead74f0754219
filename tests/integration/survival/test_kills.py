"""Whatever is killed, and whenever: the journal is readable, completed trials are kept, nothing is left behind."""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.cli import ROOT, quiet_env, vtune

SCRIPT = Path(__file__).with_name("train_two_workers.py")
OWN_SHM = ROOT / "tests" / "integration" / "ends" / "own_shm.py"
NEW_MOUNTS = 0x00020000
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


def shm_of(pid: int) -> Path:
    """As this process sees it."""
    return Path("/proc", str(pid), "root", "dev", "shm")


@dataclass(frozen=True)
class Apart:
    """Where other tests beside this one leave nothing: a folder for temporary files, and a /dev/shm."""

    tmp: Path
    # Some process that has it. None: the user may not mount, and all share one.
    holder: int | None

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "vtune", *arguments], env=quiet_env(TMPDIR=str(self.tmp)), preexec_fn=self._enter,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def measured(self, *arguments: str) -> dict[str, Any]:
        program = self.start(*arguments)
        stdout, stderr = program.communicate(timeout=110)
        assert program.returncode == 0, stderr
        trial: dict[str, Any] = json.loads(stdout)["trial"]
        return trial

    def left(self) -> list[str]:
        shm = [] if self.holder is None else os.listdir(shm_of(self.holder))
        return [*shm, *(path.name for path in self.tmp.glob("vt-*"))]

    def _enter(self) -> None:
        if self.holder is None:
            return
        here, mounts = os.getcwd(), os.open(f"/proc/{self.holder}/ns/mnt", os.O_RDONLY)
        if ctypes.CDLL(None).setns(mounts, NEW_MOUNTS) != 0:
            raise OSError("cannot enter the mounts of the holder")
        os.close(mounts)
        os.chdir(here)


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Apart]:
    pid_file = tmp_path / "holder"
    command = [sys.executable, str(OWN_SHM), "", str(pid_file), str(tmp_path / "left"), "sleep", "1000"]
    # Socket paths end at 108 bytes, and pytest's own folders are long.
    with tempfile.TemporaryDirectory(prefix="k") as tmp, subprocess.Popen(command) as mounting:
        try:
            while not pid_file.exists():
                assert mounting.poll() is None
                time.sleep(0.02)
            sleeper = int(pid_file.read_text())
            is_own = os.stat(shm_of(sleeper)).st_dev != os.stat("/dev/shm").st_dev
            yield Apart(Path(tmp), sleeper if is_own else None)
        finally:
            if pid_file.exists():
                os.kill(int(pid_file.read_text()), signal.SIGTERM)


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
def test_kills_at_random_moments_lose_nothing_and_leave_nothing(tmp_path: Path, apart: Apart) -> None:
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
    completed = {1: apart.measured(*arguments)["samples_per_s"]}
    dice = random.Random(20261118)
    killed = dict.fromkeys(VICTIMS, 0)
    for round_number in range(KILLS):
        name = list(VICTIMS)[round_number % len(VICTIMS)]
        program = apart.start(*arguments)
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
    last = apart.measured(*arguments)
    completed[last["trial"]] = last["samples_per_s"]
    lines = [json.loads(line) for line in (results / "s" / "journal.jsonl").read_text().splitlines()]
    kept = {line["trial"]: line["samples_per_s"] for line in lines if line["status"] == "completed"}
    assert completed.items() <= kept.items()
    assert len({line["trial"] for line in lines}) == len(lines), "a trial number was used twice"
    assert apart.left() == []


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
