"""The benchmark of what a short trial says: that it runs from a user's folder, and that its table can be read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli import ROOT, quiet_env

RUN = ROOT / "benchmarks" / "truth" / "run.py"


def run(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RUN), *map(str, arguments)],
        cwd=cwd, env=quiet_env(), capture_output=True, text=True, timeout=110, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.slow
def test_one_quick_cell_of_the_truth_benchmark_gives_a_figure_beside_its_bar(tmp_path: Path) -> None:
    readme = RUN.with_name("README.md").read_text(encoding="utf-8")
    ran = run("--quick", "--only", "cells", "--out", tmp_path / "out", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    told = json.loads((tmp_path / "out" / "cells.json").read_text(encoding="utf-8"))
    assert told["complete"] and told["quick"] and told["error"] is None
    (row,) = told["data"]["rows"]
    # Noise of a busy machine apart, a probe and a run of the same law are of one size.
    assert 0.7 < row["rate"] / row["true"] < 1.4
    assert row["mean_of_last"] > 0 and row["median_of_last"] > 0
    assert "| error at CV ≤ 0.25, median | < 2 % |" in ran.stdout
    assert RUN.with_name("README.md").read_text(encoding="utf-8") == readme


def test_a_part_that_ended_early_keeps_its_rows_and_fails_the_table(tmp_path: Path) -> None:
    cell = {"workers": 2, "prefetch": 1, "ratio": 1.0, "cv": 0.1, "slow_first_step": False, "name": "2×1 r1 CV 0.1"}
    told = {
        "rate": 101.0,
        "ci95": [97.0, 105.0],
        "rate_from": "twin",
        "steady": True,
        "steps_measured": 60,
        "probe_s": 5.0,
    }
    rest = {"mean_of_last": 110.0, "median_of_last": 120.0, "true": 100.0, "true_se": 0.005, "others_cores": 0.0}
    data = {"steps": 2000, "rows": [cell | told | rest], "failures": ["3×1: the training ended"], "disturbed": []}
    head = {
        "date": "2026-01-02",
        "machine": "a machine",
        "quick": False,
        "seconds": 60,
        "complete": False,
        "error": None,
    }
    kept = {**head, "data": data}
    (tmp_path / "cells.json").write_text(json.dumps(kept), encoding="utf-8")
    ran = run("--table", "--out", tmp_path, cwd=tmp_path)
    assert ran.returncode == 1, ran.stderr
    assert "| ended before its end | **fail** |" in ran.stdout
    assert (
        "| 2×1 r1 CV 0.1 | 100.0 | 101.0 | +1.0% | 97.0 to 105.0 | yes | +10.0%, +20.0% | twin | 60 | 0.0 |"
        in ran.stdout
    )
    assert "3×1: the training ended" in ran.stdout
