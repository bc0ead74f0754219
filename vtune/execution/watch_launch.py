"""A full run that vtune launched, looked at by its own files: read only, and whether or not its guard still lives."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vtune.analysis.guard.pace import Pace
from vtune.analysis.guard.progress import Progress, progress_of
from vtune.analysis.watching.measured import wait_share
from vtune.domain.counts import ProcessCounts
from vtune.domain.record import Measurement
from vtune.domain.watching import LaunchSeen
from vtune.errors import VtuneError
from vtune.execution.launch_running import living_guard
from vtune.execution.watch_tree import environment
from vtune.journal.counts import read_counts
from vtune.journal.journal import Journal
from vtune.journal.launch_files import read_object
from vtune.journal.paths import LaunchPaths, StudyPaths, TrialPaths
from vtune.journal.renewals import renewals_of

# The counters are written once a second, the state every three.
LOOK_S = 1.0
# Five of the state's: a guard that has not written for so long stands still itself.
FRESH_S = 15.0
_KEPT = 30
# What the supervisor tells a trial or a launch: its folder, below the study's.
TRIAL = "VTUNE_TRIAL="


def folders_of(pid: int) -> list[Path]:
    """Of the trial or launch that this process belongs to: none or one."""
    return [Path(text.removeprefix(TRIAL)) for text in environment(pid) if text.startswith(TRIAL)]


def attempt_of(pid: int) -> TrialPaths | None:
    for folder in folders_of(pid):
        launch = LaunchPaths(folder.parent.parent)
        if folder.parent == launch.attempts and folder.name.isdecimal() and read_object(launch.launch):
            return TrialPaths(folder)
    return None


def study_of(attempt: TrialPaths) -> StudyPaths:
    return StudyPaths(attempt.root.parents[3])


def watched_launch(pids: Iterable[int]) -> WatchedLaunch | None:
    """Of the first of these processes that belongs to one."""
    found = next((attempt for pid in pids if (attempt := attempt_of(pid)) is not None), None)
    return None if found is None else WatchedLaunch(found)


class WatchedLaunch:
    def __init__(self, attempt: TrialPaths) -> None:
        self._attempt, self._study = attempt, study_of(attempt)
        self._launch = LaunchPaths(attempt.root.parents[1])
        self._spec, self._asked = read_object(attempt.spec), read_object(self._launch.launch)
        # What its supervisor ends it at.
        self.ram_limit_bytes: int | None = read_object(attempt.limits).get("ram_bytes")
        self._supervisor_pid: int | None = None
        # As the trial of this attempt has shown it: after a step-down that is another than the launch began with.
        self._trial = self._measured()
        self._pace, self._progress = Pace(), Progress(t_s=0.0)
        self._counts: deque[tuple[float, list[ProcessCounts]]] = deque(maxlen=_KEPT)
        self._state: dict[str, Any] = {}
        self._due_s = float("-inf")

    def look(self, now_s: float) -> None:
        if now_s >= self._due_s:
            self.look_now(now_s)

    def look_now(self, now_s: float) -> None:
        self._due_s = now_s + LOOK_S
        counts = read_counts(self._attempt)
        self._counts.append((now_s, counts))
        in_rate = self._trial is not None and self._trial.restarts_in_rate
        self._progress = progress_of(counts, now_s, restarts_in_rate=in_rate)
        self._pace.look(self._progress)
        self._state = read_object(self._launch.state)
        if self._supervisor_pid is None:
            self._supervisor_pid = read_object(self._attempt.supervisor).get("supervisor_pid")

    def wait_share(self, now_s: float) -> float | None:
        return wait_share(self._counts, now_s)

    def seen(self) -> LaunchSeen:
        number, promise = int(self._attempt.root.name), _mapping(self._asked, "promise")
        guard, state = living_guard(self._launch), self._state
        told = state if state.get("attempt") == number else {}
        batch: float | None = promise.get("samples_per_step") or promise.get("effective_batch")
        at_end: int | None = promise.get("steps")
        own, by_guard = self._pace.whole.rate, told.get("samples_per_s") if guard is not None else None
        achieved: float | None = by_guard or (own * batch if own and batch else None)
        steps = int(told.get("steps_before") or 0) + self._progress.steps
        left_s = max(0, at_end - steps) * batch / achieved if at_end is not None and batch and achieved else None
        if guard is not None and "left_s" in told and _is_fresh(told):
            # It knows the pauses of the whole attempt, which a steady rate leaves out.
            left_s = told["left_s"]
        return LaunchSeen(
            study=self._study.root.name,
            launch=int(self._launch.root.name),
            attempt=number,
            trial=self._spec.get("trial"),
            settings=_mapping(self._spec, "settings"),
            guard_pid=_mapping(state, "guard").get("pid"),
            guard_lives=guard is not None,
            supervisor_pid=self._supervisor_pid,
            ending=told.get("ending"),
            step_downs=int(state.get("step_downs") or 0),
            retries=int(state.get("retries") or 0),
            steps=steps,
            resumed=bool(state.get("resumed")),
            steps_at_end=at_end,
            left_s=left_s,
            promised_samples_per_s=told.get("promised_samples_per_s") or self._promised(promise),
            achieved_samples_per_s=achieved,
            achieved_by="guard" if by_guard else "looks" if achieved else None,
            renewed=next(reversed(renewals_of(self._launch)), None),
        )

    def _promised(self, promise: Mapping[str, Any]) -> float | None:
        """For the time before its guard writes the state of this attempt."""
        of_first: float | None = promise.get("samples_per_s")
        first = self._trial is None or promise.get("trial") == self._spec.get("trial")
        return of_first if first or self._trial is None else self._trial.samples_per_s

    def _measured(self) -> Measurement | None:
        try:
            records = Journal(self._study.journal).read()
        except VtuneError:  # a journal that cannot be read says nothing of what runs
            return None
        wanted = self._spec.get("trial")
        return next((one.measurement for one in records if one.trial == wanted), None)


def _is_fresh(state: Mapping[str, Any]) -> bool:
    return abs(time.time() - float(state.get("at") or 0.0)) < FRESH_S


def _mapping(item: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = item.get(name)
    return found if isinstance(found, Mapping) else {}
