"""The real program, as a user starts it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Said:
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """Exactly one JSON object, nothing else."""
        told: dict[str, Any] = json.loads(self.stdout)
        return told


def quiet_env(**more: str) -> dict[str, str]:
    """One thread a process: on a small machine the tests' trainings must not fight for cores."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", **more}


def vtune(*arguments: str | Path, cwd: Path | None = None, timeout: float = 110, **env: str) -> Said:
    done = subprocess.run(
        [sys.executable, "-m", "vtune", *map(str, arguments)],
        cwd=cwd, env=quiet_env(**env), capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return Said(done.returncode, done.stdout, done.stderr)


def vtune_in_process(*arguments: str | Path, cwd: Path | None = None) -> Said:
    """For what ends before a training is started: a program of its own costs half a second of processor time more."""
    from vtune.cli.main import run

    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd or "."), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([str(argument) for argument in arguments])
    return Said(code, out.getvalue(), err.getvalue())
