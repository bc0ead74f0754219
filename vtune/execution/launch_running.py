"""Which full run of a study still runs, and who guards it: told by processes, never by a file alone."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vtune.domain.launch import LaunchEvent
from vtune.execution.process_tree import boot_id, process_of
from vtune.execution.sweep import supervisor_lives
from vtune.journal.launch_files import append_event, read_json, write_state
from vtune.journal.paths import LaunchPaths, StudyPaths
from vtune.journal.trial_files import read_outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningLaunch:
    number: int
    # The training's main process, or that of the guard which is just about to start it.
    pid: int
    guard_pid: int | None


def running_launch(study: StudyPaths) -> RunningLaunch | None:
    for number in reversed(study.launch_numbers()):
        launch = study.launch(number)
        guard = living_guard(launch)
        for attempt in reversed(launch.attempt_numbers()):
            folder = launch.attempt(attempt)
            if supervisor_lives(folder.root) and not folder.outcome.exists():
                state = read_json(folder.supervisor)
                pid = state.get("leader_pid") or state["supervisor_pid"]
                return RunningLaunch(number=number, pid=pid, guard_pid=guard)
        if guard is not None and read_json(launch.state).get("status") == "running":
            return RunningLaunch(number=number, pid=guard, guard_pid=guard)
    return None


def left_unguarded(study: StudyPaths) -> tuple[int, str] | None:
    """The last launch, where it ended after its guard was killed: its number and how it ended."""
    numbers = study.launch_numbers()
    if not numbers:
        return None
    launch = study.launch(numbers[-1])
    if read_json(launch.state).get("status") != "running" or running_launch(study) is not None:
        return None
    attempts = launch.attempt_numbers()
    outcome = read_outcome(launch.attempt(attempts[-1])) if attempts else None
    if outcome is None:
        return numbers[-1], "was killed together with its supervisor: nobody saw its end"
    how = f"signal {outcome.signal}" if outcome.signal is not None else f"exit code {outcome.exit_code}"
    return numbers[-1], f"went on after its guard was killed, and ended with {how}"


def settle(study: StudyPaths) -> None:
    """What ended unseen is written down as ended: from then on it is history."""
    left = left_unguarded(study)
    if left is None:
        return
    launch = study.launch(left[0])
    attempts = launch.attempt_numbers()
    outcome = read_outcome(launch.attempt(attempts[-1])) if attempts else None
    status = "completed" if outcome is not None and outcome.exit_code == 0 else "failed"
    append_event(launch, LaunchEvent(at=time.time(), kind="ended", text=left[1]))
    write_state(launch, {**read_json(launch.state), "status": status})


def living_guard(launch: LaunchPaths) -> int | None:
    guard = read_json(launch.state).get("guard")
    if not isinstance(guard, Mapping) or guard.get("boot_id") != boot_id():
        return None
    process = process_of(int(guard["pid"]))
    alive = process is not None and process.living and process.started_ticks == guard.get("started_ticks")
    return int(guard["pid"]) if alive else None


def identity(pid: int) -> dict[str, Any]:
    process = process_of(pid)
    return {"pid": pid, "started_ticks": process.started_ticks if process is not None else None, "boot_id": boot_id()}
