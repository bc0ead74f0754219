"""Memory that is going to happen: a short trial's projection against the same training, run ten times as long and
measured from outside."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import quiet_env, vtune

SCRIPT = Path(__file__).parent / "scripts" / "growing.py"
MIB = 2**20
STEPS, TEN_TIMES = 60, 700

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def probe(folder: Path, *flags: str, run: str = f"epochs: 1, iterations_per_epoch: {TEN_TIMES}", **limits: str) -> Any:
    experiment = folder / "experiment.yaml"
    command = " ".join([sys.executable, str(SCRIPT), *flags, "--steps", "100000"])
    experiment.write_text(f"vtune:\n  command: {command}\n  run: {{{run}}}\n")
    options = [word for name, value in limits.items() for word in (f"--{name.replace('_', '-')}", value)]
    said = vtune(
        "probe", "--config", experiment, "--results", folder / "results", "--steps", str(STEPS), "--json", *options
    )
    assert said.code == 0, said.stderr
    return said.json["trial"]


def peak_of_a_long_run(*flags: str) -> int:
    """Of the whole tree, each page once."""
    command = [sys.executable, str(SCRIPT), *flags, "--steps", str(TEN_TIMES)]
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=quiet_env()) as training:
        while training.poll() is None:
            peak = max(peak, used(training.pid))
            time.sleep(0.3)
    assert training.returncode == 0
    return peak


def used(pid: int) -> int:
    total = 0
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Pss_Anon", "Pss_Shmem")):
                total += int(line.split()[1]) * 1024
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            total += used(int(child))
    return total


@pytest.mark.parametrize(
    ("kind", "who", "flags"),
    [
        ("leak", "main", ("--items", "20000", "--leak-in-main", str(MIB // 2))),
        ("leak", "main", ("--items", "20000", "--leak-in-main", str(4 * MIB))),
        ("leak", "workers", ("--items", "20000", "--leak-in-workers", str(MIB // 16))),
        ("leak", "workers", ("--items", "20000", "--leak-in-workers", str(MIB // 6), "--persistent")),
        ("copy_on_write", "workers", ("--items", "300000", "--batch-size", "64")),
        (
            "copy_on_write",
            "workers",
            ("--items", "500000", "--batch-size", "64", "--workers", "4", "--step-s", "0.05"),
        ),
    ],
)
def test_the_ram_of_a_run_ten_times_as_long_is_projected(
    kind: str, who: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    trial = probe(tmp_path, *flags)
    growth = trial["ram_growth"]
    assert [(one["kind"], one["who"]) for one in growth] == [(kind, who)]
    assert trial["ram_projected_bytes"] == pytest.approx(peak_of_a_long_run(*flags), rel=0.15)
    said = " ".join(trial["why"])
    assert ("copy the data set's pages" if kind == "copy_on_write" else "leaks") in said


@pytest.mark.parametrize(
    "flags",
    [
        ("--items", "20000"),
        ("--items", "20000", "--sawtooth", str(64 * MIB)),
        ("--items", "20000", "--persistent", "--workers", "3"),
        ("--items", "20000", "--workers", "0"),
    ],
)
def test_a_training_that_does_not_grow_is_not_projected_to(flags: tuple[str, ...], tmp_path: Path) -> None:
    trial = probe(tmp_path, *flags, run="epochs: 100, iterations_per_epoch: 10000")
    assert trial["ram_growth"] == []
    assert trial["ram_projected_bytes"] == pytest.approx(trial["ram_peak_bytes"], rel=0.02)


def test_settings_whose_run_would_pass_the_limit_are_told_to_and_lose(tmp_path: Path) -> None:
    trial = probe(tmp_path, "--items", "20000", "--leak-in-main", str(2 * MIB), ram_limit="1GiB")
    assert trial["ram_peak_bytes"] < 2**30 < trial["ram_projected_bytes"]
    assert any("passes the RAM limit of 1 GiB" in line and "at step" in line for line in trial["why"])
    assert any(".detach()" in line for line in trial["next"])
    report = vtune("report", "--results", tmp_path / "results", "--ram-limit", "1GiB")
    assert "would grow to" in report.stdout


def test_queues_without_room_in_shared_memory_are_refused_before_anything_is_started(tmp_path: Path) -> None:
    flags = ("--items", "20000", "--floats", "100000")
    assert probe(tmp_path, *flags)["batch_bytes"] == 16 * (100_000 * 4 + 8)
    more = ("--set", "workers=64", "--set", "prefetch_factor=1024")
    said = vtune("probe", "--config", tmp_path / "experiment.yaml", "--results", tmp_path / "results", *more, "--json")
    trial = said.json["trial"]
    assert (said.code, trial["status"], trial["trial"]) == (4, "refused", 2)
    assert "64 workers with prefetch_factor 1024" in trial["detail"]
    assert any("would fit" in line for line in trial["next"]) and "--shm-size=" in trial["next"][-1]
    (study,) = {path.parent.parent for path in (tmp_path / "results").glob("*/trials/0002")}
    assert len((study / "journal.jsonl").read_text().splitlines()) == 2
    assert not list((study / "trials" / "0002").glob("std*.log"))
