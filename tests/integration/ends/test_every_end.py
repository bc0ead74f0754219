"""Every way to end, by real means: the status, the words of the evidence, the exit code, and nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from integration.ends.acts import ACTS, FREEZER, Running
from integration.ends.cases import CASES, Case, table
from support.cli import ROOT, quiet_env
from vtune.telemetry.cgroup import MemoryGroups, PlaceForGroups

OWN_SHM = Path(__file__).with_name("own_shm.py")
CANNOT = 99
# DataLoader workers look every five seconds whether their parent is still there.
GONE_WITHIN_S = 12.0
# The rest is for the long suite.
QUICK = ("worker raises",)


def test_the_page_shows_the_whole_table() -> None:
    assert table() in (ROOT / "docs" / "ends.md").read_text()


def test_each_status_that_a_trial_can_end_with_is_provoked_three_ways() -> None:
    ways = Counter(case.status for case in CASES.values())
    # Refused is what never started: tests of the limits show it.
    assert {status for status, count in ways.items() if count >= 3} == {
        "completed", "crashed", "out_of_ram", "out_of_shm", "out_of_vram", "hung", "timed_out", "diverged",
        "not_observed", "too_short", "invalid", "interrupted",
    }  # fmt: skip


@dataclass(frozen=True)
class Ended:
    code: int
    said: dict[str, Any]
    # Of every kind; empty when all is as it was.
    left: list[str]


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_an_end_is_named_by_its_evidence_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    ended = end_of(case, tmp_path)
    if isinstance(ended, str):
        pytest.skip(ended)
    record = ended.said["trial"]
    assert record["status"] == case.status, record["detail"]
    assert [word for word in case.words if word not in (record["detail"] or "")] == [], record["detail"]
    assert case.note in " ".join(record["notes"])
    assert ended.code == case.exit_code
    if case.status == "diverged" and record["steps_measured"] >= 20:
        # What was measured is in the record all the same.
        assert record["samples_per_s"] > 0 and record["diverged_at_step"] is not None
    assert ended.left == []


def end_of(case: Case, here: Path) -> Ended | str:
    """Or why it cannot be provoked here."""
    if case.act == "freeze_leader" and not os.access(FREEZER, os.W_OK):
        return "no freezer of version 1 that this user may use"
    parent = place_for_groups()
    if case.group_bytes is not None and not (
        parent is not None and os.access(parent, os.W_OK) and (parent / "memory.limit_in_bytes").exists()
    ):
        return "no memory group of version 1 that this user may divide"
    with memory_group(case, parent) as group, short_tmpdir() as tmpdir:
        ran = run(here, case, group=group, tmpdir=tmpdir)
        if ran is None:
            return "only root may have a /dev/shm of its own"
        code, said, shm_left = ran
        return Ended(code, said, [*nothing_is_left(here), *shm_left, *map(str, tmpdir.iterdir())])


def run(here: Path, case: Case, *, group: Path | None, tmpdir: Path) -> tuple[int, dict[str, Any], list[str]] | None:
    script = here / "train.py"
    script.write_text(case.script)
    command = list(case.command) or ["{python}", "train.py"]
    if case.torchrun:
        command = ["{python}", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    window = {
        "steps": "20", "max_steps": "20", "hang_time": "30s", "trial_time": "40s", "startup_time": "60s", **case.window,
    }  # fmt: skip
    section = {
        "command": [word.replace("{python}", sys.executable) for word in command],
        "window": {name: int(value) if value.isdigit() else value for name, value in window.items()},
        "env": {"GROUP": str(group)} if group is not None else {},
    }
    config = here / "ends.yaml"
    config.write_text(json.dumps({"vtune": {key: value for key, value in section.items() if value}}))
    pid_file, left = here / "pid", here / "shm_left.json"
    program = subprocess.Popen(
        [
            sys.executable, str(OWN_SHM), case.shm, str(pid_file), str(left), sys.executable, "-m", "vtune", "probe",
            "--config", str(config), "--study", "s", "--results", str(here / "out"), "--json", "--quiet",
            *case.options,
        ],
        cwd=here, env=quiet_env(TMPDIR=str(tmpdir), PYTHONPATH=f"{ROOT}:{ROOT / 'benchmarks'}"),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        if case.act is not None:
            trial = here / "out" / "s" / "trials" / "0001"
            wait_until_ready(trial, program)
            ACTS[case.act](Running(int(pid_file.read_text()), trial))
        stdout, stderr = program.communicate(timeout=100)
    finally:
        if program.poll() is None:
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(pid_file.read_text()), signal.SIGTERM)
            program.communicate(timeout=30)
    if program.returncode == CANNOT:
        return None
    assert stdout, stderr
    return program.returncode, json.loads(stdout), json.loads(left.read_text())


def wait_until_ready(trial: Path, program: subprocess.Popen[str]) -> None:
    give_up_s = time.monotonic() + 60
    while time.monotonic() < give_up_s and program.poll() is None:
        log = trial / "stdout.log"
        if log.exists() and "ready" in log.read_text():
            time.sleep(0.3)  # its last steps are told by then
            return
        time.sleep(0.02)


def nothing_is_left(here: Path) -> list[str]:
    marker = f"VTUNE_TRIAL={here}".encode()
    tokens = [json.loads(path.read_text())["token"] for path in here.glob("out/s/*/*/spec.json")]

    def living() -> list[str]:
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and marker in (entry / "environ").read_bytes():
                    found.append(f"process {entry.name} {(entry / 'comm').read_text().strip()}")
        return found

    give_up_s = time.monotonic() + GONE_WITHIN_S
    while living() and time.monotonic() < give_up_s:
        time.sleep(0.1)
    half_written = [str(path) for path in here.glob("out/s/**/.*.tmp")]
    own = place_for_groups()
    groups = [str(path) for path in own.rglob("vtune-*") if any(t[:8] in path.name for t in tokens)] if own else []
    return [*living(), *half_written, *groups]


def place_for_groups() -> Path | None:
    place = MemoryGroups().place_for_trials()
    return Path(place.parent) if isinstance(place, PlaceForGroups) else None


@contextlib.contextmanager
def memory_group(case: Case, parent: Path | None) -> Iterator[Path | None]:
    if case.group_bytes is None or parent is None:
        yield None
        return
    group = parent / f"ends-{os.urandom(4).hex()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(case.group_bytes))
        yield group
    finally:
        give_up_s = time.monotonic() + 10
        while group.exists() and time.monotonic() < give_up_s:
            with contextlib.suppress(OSError):
                group.rmdir()
            time.sleep(0.05)


@contextlib.contextmanager
def short_tmpdir() -> Iterator[Path]:
    """Socket paths end at 108 bytes, and pytest's own folders are long."""
    path = Path("/tmp") / f"e{os.urandom(3).hex()}"
    path.mkdir()
    try:
        yield path
    finally:
        subprocess.run(["rm", "-rf", str(path)], check=True)
