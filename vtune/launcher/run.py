"""A launch from its first attempt to its end, with the step-downs between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vtune.analysis.renewal_words import renewal_text
from vtune.analysis.renewed import renewed, with_launches
from vtune.domain.effects import Scalar
from vtune.domain.launch import Achieved, LaunchResult, LaunchStatus, Promise, Retry, StepDown
from vtune.domain.machine import Machine
from vtune.domain.record import TrialRecord
from vtune.domain.renewal import Renewal
from vtune.domain.trial import TrialStatus
from vtune.errors import UsageError, VtuneError
from vtune.execution.engines.local import LocalEngine
from vtune.execution.given_secrets import given_secrets
from vtune.execution.launch_ended import Ended, against_plan, ended
from vtune.execution.launch_guard import AttemptEnd, Guarded, Standing, run_attempt
from vtune.execution.launch_prepare import PlannedAttempt, locks_of, plan_attempt, write_config
from vtune.execution.named_data import data_evidence, data_prints
from vtune.files import PRIVATE_FOLDER
from vtune.journal.paths import LaunchPaths, TrialPaths
from vtune.journal.renewals import EVENT, renewal_to_json
from vtune.knobs.registry import same_knobs
from vtune.launcher.left_behind import has_saved
from vtune.launcher.make import make_launch
from vtune.launcher.plan import PlannedLaunch, promise_now
from vtune.launcher.record import keep
from vtune.launcher.safer import GoOn, find_safer, go_on, if_again, lost_for_no_known_reason, slower_by
from vtune.launcher.telling import Course, Notify, Telling
from vtune.reporting.words import settings_text
from vtune.strategies.turned import turned

MOST_STEP_DOWNS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """Of the whole launch."""

    how: Ended
    status: LaunchStatus
    # Of what ran since the last step-down.
    achieved: Achieved
    go_on: GoOn | None


def run_launch(planned: PlannedLaunch, machine: Machine, engine: LocalEngine, notify: Notify) -> LaunchResult:
    launch = planned.study.launch(planned.number)
    make_launch(launch, planned)
    return _Run(planned, machine, engine, launch, notify).to_its_end()


class _Run:
    def __init__(
        self, planned: PlannedLaunch, machine: Machine, engine: LocalEngine, launch: LaunchPaths, notify: Notify
    ) -> None:
        self._planned, self._machine, self._engine, self._launch = planned, machine, engine, launch
        self._telling = Telling(planned, launch, notify)
        self._settings: Mapping[str, Scalar] = planned.settings
        self._record = planned.record
        self._attempt, self._ran_s = 0, 0.0
        # Of this launch, at its last checkpoint.
        self._saved_at_step: int | None = None
        # The attempt that ended last, until it is known what follows.
        self._last: AttemptEnd | None = None
        self._step_downs: list[StepDown] = []
        self._retries: list[Retry] = []
        self._renewals: list[Renewal] = []
        self._unkept: list[tuple[TrialRecord, Mapping[str, Scalar], AttemptEnd, Ended]] = []
        # Before its first attempt.
        self._data = data_prints(planned.experiment.workload, planned.study.root.parent)
        self._unfit: set[int] = {planned.record.trial}

    @property
    def _steps_before(self) -> int:
        return self._saved_at_step or 0

    @property
    def _steps_of_attempts(self) -> int:
        """Of all that have ended. It has done no more; where it went on from a checkpoint, maybe less."""
        return sum(end.achieved.steps for _, _, end, _ in self._unkept)

    def to_its_end(self) -> LaunchResult:
        self._telling.state("running", self._course)
        try:
            end = self._attempts()
        except KeyboardInterrupt:
            if self._last is None and not self._unkept:
                self._break_off("stopped", "interrupted before it ran")
                raise
            end = self._interrupted_between()
        except BaseException as error:
            self._break_off("failed", str(error) or type(error).__name__)
            raise
        return self._finish(end)

    def _attempts(self) -> _End:
        planned = self._planned
        while True:
            end, how = self._run_attempt()
            may = planned.spec.step_down and planned.experiment.resume
            safer, once_more = None, lost_for_no_known_reason(how) and not self._retries
            if once_more and may:
                self._retry(end, how)
                continue
            if how.trouble is not None and how.status is not TrialStatus.INTERRUPTED:
                safer = find_safer(planned, self._record, how.trouble, but=self._unfit, settings=self._settings)
            if safer is not None and may and len(self._step_downs) < MOST_STEP_DOWNS:
                self._step_down(end, how, safer.record, safer.settings)
                continue
            status: LaunchStatus = "completed"
            then = None if safer is None else self._go_on(safer.record, safer.settings)
            if how.status is TrialStatus.INTERRUPTED or how.early:
                status, then = "stopped", self._go_on(self._record, self._settings)
            elif how.status is not TrialStatus.COMPLETED:
                then = if_again(self._go_on(self._record, self._settings), safer, self._record) if once_more else then
                status = "failed" if end.verdict is None else "stopped"
            return _End(how=how, status=status, achieved=end.achieved, go_on=then)

    def _interrupted_between(self) -> _End:
        """What ran is told and kept, as where it is interrupted while it runs."""
        how = Ended(status=TrialStatus.INTERRUPTED, detail="interrupted between two attempts")
        if self._last is not None and all(end is not self._last for _, _, end, _ in self._unkept):
            self._unkept.append((self._record, self._settings, self._last, how))
        return _End(
            how=how,
            status="stopped",
            achieved=Achieved() if self._last is None else self._last.achieved,
            go_on=self._go_on(self._record, self._settings),
        )

    def _go_on(self, record: TrialRecord, settings: Mapping[str, Scalar]) -> GoOn:
        return go_on(self._planned, record, settings, saved=self._saved, ran=self._record)

    @property
    def _saved(self) -> bool:
        """Whether there is something to go on from, by whichever attempt; or may be, where nobody knows where it
        writes: to begin again might overwrite it."""
        seen = self._saved_at_step is not None or (self._last is not None and self._last.saved_at_step is not None)
        output = self._planned.spec.output
        return self._planned.resume or seen or not output or has_saved(self._launch, output)

    def _break_off(self, status: LaunchStatus, why: str) -> None:
        """There will be no result: what ran before is kept all the same."""
        self._telling.nothing_runs()
        self._tell("ended", f"{status}: {why}")
        self._telling.state(status, self._course)
        self._keep_all()

    def _run_attempt(self) -> tuple[AttemptEnd, Ended]:
        planned, experiment = self._planned, self._planned.experiment
        self._attempt += 1
        folder = self._launch.attempt(self._attempt)
        folder.root.mkdir(PRIVATE_FOLDER, parents=True)
        attempt = self._plan_attempt(folder)
        write_config(experiment, attempt)
        limits, promise = experiment.limits, self._promise
        # Earlier attempts may have shown pauses.
        [known] = with_launches([self._record], self._renewals, same_knobs(experiment.knobs))
        end = run_attempt(
            self._engine,
            attempt.spec,
            folder,
            Guarded(
                promise=promise,
                trial=known.measurement,
                ram_limit_bytes=limits.ram.resolve(self._machine.ram_bytes) if limits.ram is not None else None,
                vram_bytes=limits.vram.bytes if limits.vram is not None else None,
                vram_share=limits.vram.fraction if limits.vram is not None else None,
                hang_time_s=experiment.window.hang_time_s,
                startup_time_s=experiment.window.startup_time_s,
                grace_s=planned.spec.grace_s,
                epoch_steps=planned.epoch_steps,
                steps_before=self._steps_before,
                machine_ram_bytes=self._machine.ram_bytes,
                learns=dict(turned(self._record)) == dict(self._settings),
            ),
            tell=self._tell,
            show=self._show,
            renew=self._renew,
        )
        output = tuple(map(Path, planned.spec.output))
        if end.outcome.held_elsewhere and self._attempt == 1:
            raise UsageError(
                f"another training runs already: {end.outcome.start_error}",
                hint="wait for its end, or end it: vtune never starts a second one",
            )
        self._last = end
        how = ended(
            end,
            folder,
            self._machine,
            experiment.window,
            output,
            Path(planned.spec.cwd),
            secrets=given_secrets(experiment.workload),
        )
        how = against_plan(
            how,
            self._steps_before + end.achieved.steps,
            planned.spec.length if not end.achieved.counters_gone else None,
            most=end.achieved.steps + self._steps_of_attempts,
        )
        self._unkept.append((self._record, self._settings, end, how))
        return end, how

    def _plan_attempt(self, folder: TrialPaths) -> PlannedAttempt:
        planned, experiment = self._planned, self._planned.experiment
        if self._attempt == 1:
            return planned.first
        return plan_attempt(
            experiment,
            self._settings,
            trial=self._record.trial,
            folder=folder.root.absolute(),
            train_loader=planned.train_loader,
            keys=planned.keys,
            resume=experiment.resume if self._saved else (),
            locks=locks_of(experiment.workload, planned.study),
        )

    def _keep_all(self) -> None:
        """At the very end: another vtune may use the study for hours, and no run waits for that."""
        planned = self._planned
        evidence = data_evidence(self._data, data_prints(planned.experiment.workload, planned.study.root.parent))
        for number, _ in enumerate(self._unkept):
            try:
                try:
                    self._keep(number, evidence, wait=False)
                except UsageError as error:
                    self._tell("waiting", f"its line for the journal waits: {error.message}")
                    self._keep(number, evidence, wait=True)
            except (VtuneError, OSError, KeyboardInterrupt) as error:
                # The run itself has ended as it has: its own folder tells.
                why = "interrupted" if isinstance(error, KeyboardInterrupt) else error
                self._tell("not_recorded", f"the journal does not take it: {why}")

    def _keep(self, number: int, evidence: Mapping[str, Any], *, wait: bool) -> None:
        planned, (record, settings, end, how) = self._planned, self._unkept[number]
        keep(
            record,
            settings,
            end,
            how,
            launch=planned.number,
            batch=planned.spec.promise.effective_batch,
            evidence=evidence,
            results=planned.study.root.parent,
            study=planned.spec.study,
            machine=self._machine,
            wait=wait,
        )

    def _retry(self, end: AttemptEnd, how: Ended) -> None:
        where = self._carry_on(end)
        why = how.detail or how.status.value
        self._retries.append(Retry(why=why, resumed_from_step=self._saved_at_step))
        self._tell("retry", f"goes on once more with the same settings: {why}; {where}")

    def _carry_on(self, end: AttemptEnd) -> str:
        """What the next attempt starts from, in words."""
        if end.saved_at_step is not None:
            self._saved_at_step = self._steps_before + end.saved_at_step
        self._ran_s += end.achieved.seconds
        saved, at = self._saved, self._saved_at_step
        self._last = None
        if at is not None:
            return f"its last checkpoint is that of at least step {at}"
        if saved:
            return "no checkpoint was seen, and there may be one: it looks for it itself"
        return "no checkpoint was seen: it begins again"

    def _step_down(self, end: AttemptEnd, how: Ended, to: TrialRecord, settings: Mapping[str, Scalar]) -> None:
        where = self._carry_on(end)
        self._step_downs.append(
            StepDown(
                settings_before=dict(self._settings),
                settings=dict(settings),
                trial=to.trial,
                why=how.detail or how.status.value,
                resumed_from_step=self._saved_at_step,
            )
        )
        self._unfit.add(to.trial)
        cost = "" if (slower := slower_by(to, self._record)) is None else f"; {slower}"
        self._settings, self._record = dict(settings), to
        self._tell(
            "step_down",
            f"goes on with the settings of trial {to.trial} ({settings_text(settings) or 'the current ones'}{cost}): "
            f"{how.detail}; {where}",
        )

    def _finish(self, end: _End) -> LaunchResult:
        self._telling.nothing_runs()
        self._tell("ended", f"{end.status}{f': {end.how.detail}' if end.how.detail else ''}")
        achieved = self._of_all_attempts(end.achieved, completed=end.status == "completed")
        if end.status == "completed":
            achieved = replace(achieved, left_s=0.0)
        result = LaunchResult(
            study=self._planned.spec.study,
            launch=self._planned.number,
            settings=dict(self._settings),
            status=end.status,
            ended=end.how.status,
            detail=end.how.detail,
            promise=self._first_promise,
            achieved=achieved,
            step_downs=tuple(self._step_downs),
            retries=tuple(self._retries),
            renewals=tuple(self._renewals),
            next_command=None if end.go_on is None else end.go_on.command,
            next_note=None if end.go_on is None else end.go_on.note,
        )
        self._telling.state(end.status, self._course, achieved=replace(end.achieved, left_s=achieved.left_s))
        self._keep_all()
        return result

    @property
    def _promise(self) -> Promise:
        """The promise that the run is compared with now: the trial's, with all that the run itself has shown."""
        promise = self._first_promise
        for renewal in self._renewals:
            promise = renewed(promise, renewal) if renewal.trial == promise.trial else promise
        return promise

    @property
    def _first_promise(self) -> Promise:
        """The promise of the trial whose settings run now: after a step-down it is another trial."""
        first = self._planned.spec.promise
        return promise_now(first, self._record) if self._step_downs else first

    def _renew(self, renewal: Renewal) -> None:
        renewal = replace(renewal, launch=self._planned.number, settings=dict(self._settings))
        self._renewals.append(renewal)
        self._telling.event(EVENT, renewal_text(renewal), attempt=self._attempt, renewal=renewal_to_json(renewal))

    def _of_all_attempts(self, last: Achieved, *, completed: bool) -> Achieved:
        """The steady rate is that of the settings which ran last; steps and time are the whole launch's."""
        steps, took_s = self._steps_before + last.steps, self._ran_s + last.seconds
        planned, most = self._planned.spec.promise.steps, self._steps_of_attempts
        if completed and planned is not None and steps < planned <= most:
            # Just how many were done at its checkpoint was not seen; that it came to its end was.
            steps = planned
        batch = self._planned.spec.promise.mean_batch
        whole = steps * batch / took_s if last.samples_per_s_whole is not None and batch and took_s > 0 else None
        or_more = not last.counters_gone and steps < most and not (completed and steps == planned)
        return replace(last, steps=steps, seconds=took_s, samples_per_s_whole=whole, or_more=or_more)

    def _tell(self, kind: str, text: str) -> None:
        self._telling.event(kind, text, attempt=self._attempt)

    def _show(self, standing: Standing) -> None:
        self._telling.progress(standing, self._course)

    @property
    def _course(self) -> Course:
        return Course(
            attempt=self._attempt,
            settings=self._settings,
            promise=self._promise,
            steps_before=self._steps_before,
            step_downs=len(self._step_downs),
            retries=len(self._retries),
            renewed=self._renewals[-1] if self._renewals else None,
        )
