"""Which full run of a study still runs, and who guards it: told by processes, never by a file alone."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vtune.analysis.ending import Seen, status_of
from vtune.analysis.guard.progress import progress_of
from vtune.domain.experiment import Window
from vtune.domain.launch import LaunchEvent, LaunchStatus, Length
from vtune.domain.trial import TrialOutcome
from vtune.execution.process_tree import boot_id, process_of
from vtune.execution.sweep import supervisor_lives
from vtune.journal.counts import read_counts
from vtune.journal.launch_files import append_event, read_object, write_state
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
                state = read_object(folder.supervisor)
                pid = state.get("leader_pid") or state["supervisor_pid"]
                return RunningLaunch(number=number, pid=pid, guard_pid=guard)
        if guard is not None and read_object(launch.state).get("status") == "running":
            return RunningLaunch(number=number, pid=guard, guard_pid=guard)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftLaunch:
    """One that ended after its guard was killed."""

    number: int
    status: LaunchStatus
    how: str
    # At least, where its counters tell.
    steps: int | None = None


def left_unguarded(study: StudyPaths) -> list[LeftLaunch]:
    """None as long as one of them runs."""
    numbers = study.launch_numbers()
    left = [number for number in numbers if read_object(study.launch(number).state).get("status") == "running"]
    return [_left(study, number) for number in left] if left and running_launch(study) is None else []


def _left(study: StudyPaths, number: int) -> LeftLaunch:
    launch = study.launch(number)
    attempts = launch.attempt_numbers()
    outcome = read_outcome(launch.attempt(attempts[-1])) if attempts else None
    if outcome is None:
        how = "was killed together with its supervisor: nobody saw its end"
        return LeftLaunch(number=number, status="failed", how=how)
    steps, most = _steps_of(launch)
    length = Length(**told) if isinstance(told := read_object(launch.launch).get("length"), Mapping) else None
    by = f"signal {outcome.signal}" if outcome.signal is not None else f"exit code {outcome.exit_code}"
    end = f"it ended with {by}"
    status: LaunchStatus = "completed" if outcome.exit_code == 0 else "failed"
    if outcome.ended_by == "limit":
        status, end = "stopped", _limit_words(outcome, steps)
    elif status == "completed" and length is not None and length.falls_short(most):
        status, end = "stopped", f"{end}, after {length.words(steps, most)}"
    return LeftLaunch(
        number=number,
        status=status,
        how=f"went on after its guard was killed: {end}",
        steps=steps or None,
    )


def _limit_words(outcome: TrialOutcome, steps: int) -> str:
    seen = Seen(pythons=1, hello=True, steps=steps, measured=steps, backwards=0, batches=0, last_words="")
    return status_of(outcome, Window(), seen)[1] or "over a limit"


def _steps_of(launch: LaunchPaths) -> tuple[int, int]:
    """What it has done at least, and at most."""
    done = [progress_of(read_counts(launch.attempt(one)), 0.0).steps for one in launch.attempt_numbers()]
    before = read_object(launch.state).get("steps_before") or 0
    return before + (done[-1] if done else 0), sum(done)


def settle(study: StudyPaths) -> None:
    """What ended unseen is written down as ended: from then on it is history."""
    for left in left_unguarded(study):
        launch = study.launch(left.number)
        append_event(launch, LaunchEvent(at=time.time(), kind="ended", text=f"{left.status}: it {left.how}"))
        state = read_object(launch.state)
        write_state(launch, {**state, "status": left.status, "steps": left.steps or state.get("steps")})


def living_guard(launch: LaunchPaths) -> int | None:
    guard = read_object(launch.state).get("guard")
    if not isinstance(guard, Mapping) or guard.get("boot_id") != boot_id():
        return None
    process = process_of(int(guard["pid"]))
    alive = process is not None and process.living and process.started_ticks == guard.get("started_ticks")
    return int(guard["pid"]) if alive else None


def identity(pid: int) -> dict[str, Any]:
    process = process_of(pid)
    return {"pid": pid, "started_ticks": process.started_ticks if process is not None else None, "boot_id": boot_id()}
