"""What a launch tells while it runs: to whoever listens, and in its folder."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vtune.domain.effects import Scalar
from vtune.domain.launch import Achieved, LaunchEvent, Promise
from vtune.domain.renewal import Renewal
from vtune.execution.launch_guard import Standing
from vtune.execution.launch_prepare import note_launch
from vtune.execution.launch_running import identity
from vtune.journal.launch_files import append_event, write_state
from vtune.journal.paths import LaunchPaths
from vtune.journal.renewals import renewal_to_json
from vtune.launcher.plan import PlannedLaunch

STATE_EVERY_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchProgress:
    steps: int
    steps_at_end: int | None
    achieved: Achieved
    promised: float | None
    promised_run_s: float | None
    seconds: float
    # Without a sign for so long, where that is worth a word; and after how long that is a hang.
    still_s: float | None = None
    hang_after_s: float | None = None

    @property
    def run_s(self) -> float | None:
        """The whole run, as it goes."""
        return None if self.achieved.left_s is None else self.seconds + self.achieved.left_s


Notify = Callable[[LaunchEvent | LaunchProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How far a launch has come between its attempts."""

    attempt: int
    settings: Mapping[str, Scalar]
    promise: Promise
    steps_before: int
    step_downs: int
    retries: int
    # The newest; the promise has all of them.
    renewed: Renewal | None = None


class Telling:
    def __init__(self, planned: PlannedLaunch, launch: LaunchPaths, listener: Notify) -> None:
        self._planned, self._launch, self._listener = planned, launch, listener
        # Of the training that runs now.
        self._standing: Standing | None = None
        self._started_s = time.monotonic()
        self._state_due_s = 0.0

    def event(self, kind: str, text: str, *, attempt: int, **data: Any) -> None:
        event = LaunchEvent(at=time.time(), kind=kind, text=text, data={"attempt": attempt, **data})
        append_event(self._launch, event)
        self._notify(event)

    def progress(self, standing: Standing, course: Course) -> None:
        pid = standing.leader_pid
        # Without one it was not started yet, or never will be: another training may hold its folder.
        if pid is not None and (self._standing is None or self._standing.leader_pid != pid):
            self._standing = standing
            note_launch(self._planned.experiment.workload, self._launch)
            runs = f"attempt {course.attempt} runs as process {pid}"
            self.event("started", runs, attempt=course.attempt, pid=pid, guard_pid=os.getpid())
        self._standing = standing
        if time.monotonic() >= self._state_due_s:
            self.state("running", course)
        self._notify(
            LaunchProgress(
                steps=course.steps_before + standing.achieved.steps,
                steps_at_end=self._planned.spec.promise.steps,
                achieved=standing.achieved,
                promised=course.promise.samples_per_s,
                promised_run_s=course.promise.run_s,
                seconds=time.monotonic() - self._started_s,
                still_s=standing.still_s,
                hang_after_s=standing.hang_after_s,
            )
        )

    def nothing_runs(self) -> None:
        self._standing = None

    def state(self, status: str, course: Course, *, achieved: Achieved | None = None) -> None:
        """`running` also while it is asked to end: as long as it is, somebody runs."""
        now_s = time.monotonic()
        self._state_due_s = now_s + STATE_EVERY_S
        standing, promise = self._standing, course.promise
        achieved = achieved or (standing.achieved if standing is not None else Achieved())
        state: dict[str, Any] = {
            "launch": self._planned.number,
            "status": status,
            "ending": standing.ending if standing is not None else None,
            "at": time.time(),
            "guard": identity(os.getpid()),
            "attempt": course.attempt,
            "pid": standing.leader_pid if standing is not None else None,
            "supervisor_pid": standing.supervisor_pid if standing is not None else None,
            "settings": dict(course.settings),
            "steps": course.steps_before + achieved.steps if not achieved.counters_gone else None,
            "steps_before": course.steps_before,
            "resumed": self._planned.resume,
            "steps_at_end": promise.steps,
            "samples_per_s": achieved.samples_per_s,
            "samples_per_s_whole": achieved.samples_per_s_whole,
            "promised_samples_per_s": promise.samples_per_s,
            "promised_run_s": promise.run_s,
            "renewed": renewal_to_json(course.renewed) if course.renewed is not None else None,
            "left_s": achieved.left_s,
            "seconds": now_s - self._started_s,
            "ram_bytes": standing.ram_bytes if standing is not None else None,
            "step_downs": course.step_downs,
            "retries": course.retries,
        }
        write_state(self._launch, state)

    def _notify(self, event: LaunchEvent | LaunchProgress) -> None:
        # A terminal that was closed under it takes no more words, and is no reason to end a run without its checkpoint.
        with contextlib.suppress(OSError):
            self._listener(event)
