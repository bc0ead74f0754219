"""A supervisor that does not answer: given up after all the patience that a busy machine is due."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.cli import quiet_env

SCRIPT = Path(__file__).parents[1] / "survival" / "train_two_workers.py"


@pytest.mark.slow
def test_a_supervisor_that_does_not_answer_is_ended_and_the_window_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = subprocess.Popen(
        [sys.executable, "-m", "vtune", "probe", "--study", "s", "--results", str(out), "--json", "--quiet", "--",
         sys.executable, str(SCRIPT)],
        env=quiet_env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    told = out / "s" / "trials" / "0001" / "supervisor.json"
    deadline = time.monotonic() + 30
    while not (told.exists() and json.loads(told.read_text())["leader_pid"]) and time.monotonic() < deadline:
        time.sleep(0.05)
    supervisor = json.loads(told.read_text())["supervisor_pid"]
    os.kill(supervisor, signal.SIGSTOP)
    try:
        stdout, _ = program.communicate(timeout=100)
    finally:
        program.kill()
        # Where it was not ended, it goes on, finds nobody at the other end, and clears up.
        with contextlib.suppress(ProcessLookupError):
            os.kill(supervisor, signal.SIGCONT)
    assert program.returncode == 0
    assert json.loads(stdout)["trial"]["status"] == "completed"
