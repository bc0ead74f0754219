from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = str(Path(__file__).resolve().parents[3] / "benchmarks" / "pipeline" / "run.py")


@pytest.mark.slow
def test_the_pipelines_benchmark_measures_both_sides_of_every_stage() -> None:
    command = [sys.executable, BENCHMARK, "--quick"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert ran.returncode == 0, ran.stderr
    rows = [line for line in ran.stdout.splitlines() if line.startswith("| ")][1:]
    both = [row for row in rows if " × (" in row]
    groups = ("loading", "loading and augmentation", "augmentation", "loss", "network")
    assert all(any(row.startswith(f"| {group}: ") for row in both) for group in groups)
    # Of TIFF in one file, zarr, synthetic volumes, skeletons and topology MONAI knows nothing.
    assert len(rows) > len(both) > len(rows) / 2


@pytest.mark.slow
def test_without_a_measurement_the_benchmark_shows_what_is_there(tmp_path: Path) -> None:
    command = [sys.executable, BENCHMARK, "--table", "--out", str(tmp_path / "none.json")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (0, "Nothing was measured yet.\n")
