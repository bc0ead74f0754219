"""What a launch does before anything of it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from support.studies import a_trial
from vtune.execution.ownership import record
from vtune.execution.process_tree import boot_id
from vtune.journal.files import dump_json
from vtune.journal.trial_files import read_outcome
from vtune.launcher.make import make_launch
from vtune.launcher.plan import PlannedLaunch


def test_what_an_earlier_launch_left_running_is_ended_before_the_next_one_starts(
    plan: Callable[..., PlannedLaunch],
) -> None:
    planned, token = plan(a_trial(1, 20.0)), os.urandom(16).hex()
    left = planned.study.launch(planned.number).attempt(1)
    left.root.mkdir(parents=True)
    supervisor = subprocess.Popen(["true"])
    supervisor.wait()
    dump_json(left.spec, {"token": token})
    state = {"supervisor_pid": supervisor.pid, "boot_id": boot_id(), "shm_before": []}
    assert record(token, {"folder": str(left.root), **state})
    with subprocess.Popen(["sleep", "1000"], env={**os.environ, "VTUNE_TOKEN": token}) as worker:
        try:
            # Right after its start a process has no environment yet.
            environment = Path("/proc", str(worker.pid), "environ")
            while token not in environment.read_text():
                time.sleep(0.01)
            make_launch(planned.study.launch(planned.number + 1), planned)
            assert worker.wait(timeout=10) == -signal.SIGKILL
        finally:
            worker.kill()
    outcome = read_outcome(left)
    assert outcome is not None and outcome.ended_by == "lost"
