"""What the test does to a training that is ready: signals from outside, a freezer, the end of vtune itself."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

FREEZER = Path("/sys/fs/cgroup/freezer")


class Running:
    def __init__(self, vtune_pid: int, trial: Path) -> None:
        self.vtune_pid = vtune_pid
        self.trial = trial

    def of_supervisor(self, name: str) -> int:
        return int(json.loads((self.trial / "supervisor.json").read_text())[name])

    def worker(self) -> int:
        """Any loader worker of the training."""
        leader = self.of_supervisor("leader_pid")
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if not entry.name.isdigit() or not (entry / "comm").read_text().startswith("pt_data_worker"):
                    continue
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == leader:
                    return int(entry.name)
        raise AssertionError("no loader worker runs")


def _to_leader(signum: int) -> Callable[[Running], None]:
    return lambda running: os.kill(running.of_supervisor("leader_pid"), signum)


def _to_vtune(signum: int) -> Callable[[Running], None]:
    return lambda running: os.kill(running.vtune_pid, signum)


def _kill_worker(running: Running) -> None:
    os.kill(running.worker(), signal.SIGKILL)


def _terminate_all(running: Running) -> None:
    os.kill(running.of_supervisor("leader_pid"), signal.SIGTERM)
    time.sleep(0.1)
    os.kill(running.vtune_pid, signal.SIGTERM)


def _freeze_leader(running: Running) -> None:
    """Until vtune has looked where it hangs: then it thaws, so that it can be ended."""
    group = FREEZER / f"ends-{os.urandom(4).hex()}"
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(running.of_supervisor("leader_pid")))
        (group / "freezer.state").write_text("FROZEN")
        give_up_s = time.monotonic() + 30
        while not (running.trial / "stacks.json").exists() and time.monotonic() < give_up_s:
            time.sleep(0.05)
    finally:
        (group / "freezer.state").write_text("THAWED")
        give_up_s = time.monotonic() + 30
        while time.monotonic() < give_up_s:
            try:
                group.rmdir()
                break
            except OSError:  # until its process is gone
                time.sleep(0.05)


ACTS: dict[str, Callable[[Running], None]] = {
    "kill_leader": _to_leader(signal.SIGKILL),
    "terminate_leader": _to_leader(signal.SIGTERM),
    "interrupt_leader": _to_leader(signal.SIGINT),
    "stop_leader": _to_leader(signal.SIGSTOP),
    "kill_worker": _kill_worker,
    "freeze_leader": _freeze_leader,
    "interrupt_vtune": _to_vtune(signal.SIGINT),
    "terminate_vtune": _to_vtune(signal.SIGTERM),
    "terminate_all": _terminate_all,
    "kill_supervisor": lambda running: os.kill(running.of_supervisor("supervisor_pid"), signal.SIGKILL),
}
