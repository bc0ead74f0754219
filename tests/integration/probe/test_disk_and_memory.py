"""A full disk, a memory spike: said plainly, nothing lost that could be kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli import ROOT, quiet_env, vtune

SCRIPT = Path(__file__).parents[1] / "survival" / "train_two_workers.py"
STEPPING = """
import time, torch
weight = torch.nn.Parameter(torch.zeros(3))
optimizer = torch.optim.SGD([weight], lr=0.1)
def step():
    (weight * 1).sum().backward()
    optimizer.step()
    time.sleep(0.05)
"""


@pytest.mark.slow
def test_a_spike_of_a_second_is_seen_and_held_against_the_limit(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        STEPPING + "for n in range(45):\n    step()\n    if n == 20:\n        held = bytearray(500_000_000)\n"
        "        held[::4096] = b'x' * len(held[::4096])\n        time.sleep(1)\n        del held\n"
    )
    free = vtune("probe", "--json", "--steps", "30", "--results", tmp_path / "free", "--", sys.executable, script)
    assert free.json["trial"]["ram_peak_bytes"] > 500_000_000
    held = vtune(
        "probe", "--json", "--results", tmp_path / "held", "--ram-limit", "500MiB", "--", sys.executable, script
    )
    assert held.code == 4 and held.json["trial"]["status"] == "out_of_ram"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
@pytest.mark.parametrize("size", ["24k", pytest.param("80k", marks=pytest.mark.slow)])
def test_a_full_disk_is_no_defect_of_vtune(tmp_path: Path, size: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "small", disk], capture_output=True).returncode:
        pytest.skip("this machine does not let us mount a small disk")
    try:
        said = vtune("probe", "--json", "--steps", "20", "--results", disk, "--", sys.executable, SCRIPT)
    finally:
        subprocess.run(["umount", disk], check=True)
    assert said.code in (0, 3, 130), said.stdout
    if said.code == 3:
        assert str(disk) in said.json["error"] and "--results" in said.json["hint"]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_disk_that_was_full_for_a_moment_is_named_and_no_setting_is_blamed(tmp_path: Path) -> None:
    disk, script = tmp_path / "disk", tmp_path / "train.py"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "small", disk], capture_output=True).returncode:
        pytest.skip("this machine does not let us mount a small disk")
    filler = f"filler = open({str(disk / 'filler')!r}, 'wb', buffering=0)\n"
    fill = "try:\n    while filler.write(b'x' * 4096): pass\nexcept OSError: pass\n"
    script.write_text(filler + fill + STEPPING + "for n in range(30): step()\nfiller.truncate(0)\n")
    try:
        said = vtune("probe", "--json", "--study", "s", "--results", disk, "--", sys.executable, script)
        journal = disk / "s" / "journal.jsonl"
        assert not journal.exists() or journal.read_text() == ""
        script.write_text(STEPPING + "for n in range(90): step()\n")
        again = vtune("probe", "--json", "--study", "s", "--results", disk, "--", sys.executable, script)
    finally:
        subprocess.run(["umount", disk], check=True)
    assert said.code == 3 and "no space left" in said.json["error"] and "make room" in said.json["hint"], said.stdout
    assert again.code == 0, again.stderr


def test_output_that_cannot_be_written_is_said_on_stderr(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "vtune", "probe", "--json", "--dry-run", "--", sys.executable, str(SCRIPT)],
            cwd=tmp_path, env=quiet_env(PYTHONPATH=str(ROOT)), stdout=full, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    assert done.returncode == 3 and "standard output" in done.stderr and "Traceback" not in done.stderr


def test_a_folder_that_is_gone_is_a_usage_error(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    run = f"import os, sys; os.rmdir({str(gone)!r}); from vtune.cli.main import run; sys.exit(run(['probe']))"
    done = subprocess.run(
        [sys.executable, "-c", run], cwd=gone, env=quiet_env(PYTHONPATH=str(ROOT)), capture_output=True, text=True
    )
    assert done.returncode == 2 and "does not exist any more" in done.stderr
