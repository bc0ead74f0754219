"""A folder under protection: what vtune writes into a trial's folder before its start, and a Python that heeds it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support.cli import ROOT

INJECT = ROOT / "vtune" / "worker" / "inject"
HOSTILE = ROOT / "tests" / "support" / "hostile_training.py"


def write_protection(
    trial: Path, *folders: Path, by: str = "inside", open_: tuple[Path, ...] = (), disk_bytes: int | None = None
) -> None:
    trial.mkdir(parents=True, exist_ok=True)
    protection = {
        "by": by,
        "folders": [os.path.realpath(folder) for folder in folders],
        "open": [os.path.realpath(path) for path in (trial, *open_)],
        "disk_bytes": disk_bytes,
    }
    (trial / "protection.json").write_text(json.dumps(protection))


def run_python(trial: Path, code: str, cwd: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """With the hooks in it, as a supervisor starts a training."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd, env={**os.environ, "VTUNE_TRIAL": str(trial), "PYTHONPATH": str(INJECT), **env},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
