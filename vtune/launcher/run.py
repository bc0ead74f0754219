"""A launch from its first attempt to its end, with the step-downs between them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vtune.domain.effects import Scalar
from vtune.domain.launch import Achieved, LaunchEvent, LaunchResult, LaunchStatus, StepDown
from vtune.domain.machine import Machine
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.errors import UsageError, VtuneError
from vtune.execution.engines.local import LocalEngine
from vtune.execution.launch_ended import Ended, ended
from vtune.execution.launch_guard import AttemptEnd, Guarded, Standing, run_attempt
from vtune.execution.launch_prepare import launch_spec, locks_of, write_config
from vtune.execution.launch_running import identity, settle
from vtune.execution.sweep import sweep_stale
from vtune.journal.launch_files import append_event, write_launch, write_state
from vtune.journal.paths import LaunchPaths
from vtune.launcher.plan import PlannedLaunch, epoch_steps
from vtune.launcher.record import keep
from vtune.launcher.safer import find_safer, go_on_command
from vtune.reporting.words import settings_text

MOST_STEP_DOWNS = 3
STATE_EVERY_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchProgress:
    launch: int
    attempt: int
    pid: int | None
    steps: int
    steps_at_end: int | None
    achieved: Achieved
    promised: float | None
    ram_bytes: int | None
    seconds: float


Notify = Callable[[LaunchEvent | LaunchProgress], None]


def run_launch(planned: PlannedLaunch, machine: Machine, engine: LocalEngine, notify: Notify) -> LaunchResult:
    launch = planned.study.launch(planned.number)
    _make(launch, planned)
    run = _Run(planned, machine, engine, launch, notify)
    try:
        return run.to_its_end()
    except BaseException:
        run.write_state("failed", force=True)
        raise


def _make(launch: LaunchPaths, planned: PlannedLaunch) -> None:
    try:
        launch.root.mkdir(parents=True)
    except FileExistsError:
        raise UsageError(
            f"launch {planned.number} of study {planned.spec.study} was begun by another vtune this moment",
            hint="vtune report shows what runs",
        ) from None
    settle(planned.study)
    for number in planned.study.launch_numbers():
        # Whose guard and supervisor were killed both.
        sweep_stale(planned.study.launch(number).attempts)
    for lock in locks_of(planned.experiment.workload, planned.study):
        lock.parent.mkdir(parents=True, exist_ok=True)
    write_launch(launch, planned.spec)


class _Run:
    def __init__(
        self, planned: PlannedLaunch, machine: Machine, engine: LocalEngine, launch: LaunchPaths, notify: Notify
    ) -> None:
        self._planned, self._machine, self._engine, self._launch, self._listener = (
            planned,
            machine,
            engine,
            launch,
            notify,
        )
        self._settings: Mapping[str, Scalar] = planned.settings
        self._record = planned.record
        self._attempt, self._steps_before, self._ran_s = 0, 0, 0.0
        self._step_downs: list[StepDown] = []
        self._unkept: list[tuple[TrialRecord, Mapping[str, Scalar], AttemptEnd, Ended]] = []
        self._unfit: set[int] = {planned.record.trial}
        self._started = time.time()
        self._state_due_s = 0.0
        self._standing: Standing | None = None

    def to_its_end(self) -> LaunchResult:
        self.write_state("running", force=True)
        while True:
            folder_end, how = self._run_attempt()
            safer = None
            if how.trouble is not None and how.status is not TrialStatus.INTERRUPTED:
                safer = find_safer(self._planned, self._record, how.trouble, but=self._unfit, settings=self._settings)
            may = self._planned.spec.step_down and self._planned.experiment.resume
            if safer is None or not may or len(self._step_downs) >= MOST_STEP_DOWNS:
                return self._finish(folder_end, how, go_on_command(self._planned, how, safer))
            self._step_down(folder_end, how, safer.record, safer.settings)

    def _run_attempt(self) -> tuple[AttemptEnd, Ended]:
        planned, experiment = self._planned, self._planned.experiment
        self._attempt += 1
        folder = self._launch.attempt(self._attempt)
        folder.root.mkdir(parents=True)
        spec = launch_spec(
            experiment,
            self._settings,
            trial=self._record.trial,
            folder=folder.root.absolute(),
            train_loader=planned.train_loader,
            keys=planned.keys,
            resume=experiment.resume if self._attempt > 1 or planned.resume else (),
            locks=locks_of(experiment.workload, planned.study),
        )
        write_config(experiment, spec, folder)
        limits, promise = experiment.limits, planned.spec.promise
        end = run_attempt(
            self._engine,
            spec,
            folder,
            Guarded(
                promise=replace(
                    promise,
                    samples_per_s=self._record.measurement.samples_per_s,
                    samples_per_s_ci95=self._record.measurement.samples_per_s_ci95,
                ),
                trial=self._record.measurement,
                ram_limit_bytes=limits.ram.resolve(self._machine.ram_bytes) if limits.ram is not None else None,
                vram_bytes=limits.vram.bytes if limits.vram is not None else None,
                vram_share=limits.vram.fraction if limits.vram is not None else None,
                hang_time_s=experiment.window.hang_time_s,
                grace_s=planned.spec.grace_s,
                epoch_steps=epoch_steps(planned.record, experiment.planned_run),
                steps_before=self._steps_before,
                machine_ram_bytes=self._machine.ram_bytes,
            ),
            tell=self._tell,
            show=self._show,
        )
        output = tuple(map(Path, planned.spec.output))
        self._check_locks(end)
        how = ended(end, folder, self._machine, experiment.window, output, Path(planned.spec.cwd))
        self._unkept.append((self._record, self._settings, end, how))
        return end, how

    def _keep_all(self) -> None:
        """At the very end: another vtune may use the study for hours, and no run waits for that."""
        for number, _ in enumerate(self._unkept):
            try:
                try:
                    self._keep(number, wait=False)
                except UsageError as error:
                    self._tell("waiting", f"its line for the journal waits: {error.message}")
                    self._keep(number, wait=True)
            except (VtuneError, OSError) as error:
                # The run itself has ended as it has: its own folder tells.
                self._tell("not_recorded", f"the journal does not take it: {error}")

    def _keep(self, number: int, *, wait: bool) -> None:
        planned, (record, settings, end, how) = self._planned, self._unkept[number]
        keep(
            record,
            settings,
            end,
            how,
            launch=planned.number,
            results=planned.study.root.parent,
            study=planned.spec.study,
            machine=self._machine,
            wait=wait,
        )

    def _check_locks(self, end: AttemptEnd) -> None:
        error = end.outcome.start_error
        if error is not None and "held by another run" in error:
            self.write_state("failed", force=True)
            raise UsageError(
                f"another training runs already: {error}",
                hint="wait for its end, or end it: vtune never starts a second one",
            )

    def _step_down(self, end: AttemptEnd, how: Ended, to: TrialRecord, settings: Mapping[str, Scalar]) -> None:
        at = None if end.saved_at_step is None else self._steps_before + end.saved_at_step
        self._step_downs.append(
            StepDown(
                settings_before=dict(self._settings),
                settings=dict(settings),
                trial=to.trial,
                why=how.detail or how.status.value,
                resumed_from_step=at,
            )
        )
        where = "no checkpoint was seen" if at is None else f"its last checkpoint is that of step {at}"
        self._tell(
            "step_down",
            f"goes on with the settings of trial {to.trial} ({settings_text(settings) or 'the current ones'}): "
            f"{how.detail}; {where}",
        )
        self._steps_before = at or 0
        self._ran_s += end.achieved.seconds
        self._unfit.add(to.trial)
        self._settings, self._record = dict(settings), to

    def _finish(self, end: AttemptEnd, how: Ended, go_on: str | None) -> LaunchResult:
        status: LaunchStatus = "completed"
        if how.status is not TrialStatus.COMPLETED:
            stopped = how.status is TrialStatus.INTERRUPTED or end.verdict is not None
            status = "stopped" if stopped else "failed"
        self._standing = None
        self._tell("ended", f"{status}{f': {how.detail}' if how.detail else ''}")
        result = LaunchResult(
            study=self._planned.spec.study,
            launch=self._planned.number,
            settings=dict(self._settings),
            status=status,
            ended=how.status,
            detail=how.detail,
            promise=self._planned.spec.promise,
            achieved=self._of_all_attempts(end.achieved),
            step_downs=tuple(self._step_downs),
            next_command=go_on,
        )
        self.write_state(status, force=True, achieved=end.achieved)
        self._keep_all()
        return result

    def _of_all_attempts(self, last: Achieved) -> Achieved:
        """The steady rate is that of the settings which ran last; steps and time are the whole launch's."""
        steps, took_s = self._steps_before + last.steps, self._ran_s + last.seconds
        batch = self._planned.spec.promise.effective_batch
        whole = steps * batch / took_s if last.samples_per_s_whole is not None and batch and took_s > 0 else None
        return replace(last, steps=steps, seconds=took_s, samples_per_s_whole=whole)

    def _tell(self, kind: str, text: str, **data: Any) -> None:
        event = LaunchEvent(at=time.time(), kind=kind, text=text, data={"attempt": self._attempt, **data})
        append_event(self._launch, event)
        self._notify(event)

    def _show(self, standing: Standing) -> None:
        if self._standing is None or self._standing.leader_pid != standing.leader_pid:
            self._standing = standing
            pid = standing.leader_pid
            self._tell("started", f"attempt {self._attempt} runs as process {pid}", pid=pid, guard_pid=os.getpid())
        self._standing = standing
        self.write_state("ending" if standing.ending else "running")
        self._notify(
            LaunchProgress(
                launch=self._planned.number,
                attempt=self._attempt,
                pid=standing.leader_pid,
                steps=self._steps_before + standing.achieved.steps,
                steps_at_end=self._planned.spec.promise.steps,
                achieved=standing.achieved,
                promised=self._planned.spec.promise.samples_per_s,
                ram_bytes=standing.ram_bytes,
                seconds=time.time() - self._started,
            )
        )

    def _notify(self, event: LaunchEvent | LaunchProgress) -> None:
        # A terminal that was closed under it takes no more words, and is no reason to end a run without its checkpoint.
        with contextlib.suppress(OSError):
            self._listener(event)

    def write_state(self, status: str, *, force: bool = False, achieved: Achieved | None = None) -> None:
        """`running` also while it is asked to end: as long as it is, somebody runs."""
        now_s = time.monotonic()
        if not force and now_s < self._state_due_s:
            return
        self._state_due_s = now_s + STATE_EVERY_S
        standing, promise = self._standing, self._planned.spec.promise
        achieved = achieved or (standing.achieved if standing is not None else Achieved())
        state: dict[str, Any] = {
            "launch": self._planned.number,
            "status": "running" if status == "ending" else status,
            "ending": standing.ending if standing is not None else None,
            "at": time.time(),
            "guard": identity(os.getpid()),
            "attempt": self._attempt,
            "pid": standing.leader_pid if standing is not None else None,
            "supervisor_pid": standing.supervisor_pid if standing is not None else None,
            "settings": dict(self._settings),
            "steps": self._steps_before + achieved.steps,
            "steps_before": self._steps_before,
            "steps_at_end": promise.steps,
            "samples_per_s": achieved.samples_per_s,
            "samples_per_s_whole": achieved.samples_per_s_whole,
            "promised_samples_per_s": promise.samples_per_s,
            "seconds": time.time() - self._started,
            "ram_bytes": standing.ram_bytes if standing is not None else None,
            "step_downs": len(self._step_downs),
        }
        write_state(self._launch, state)
