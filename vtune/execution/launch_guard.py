"""One attempt of a full run: started, guarded to its end, asked to save and ended where it cannot go on."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from vtune.analysis.guard.learning import Learning
from vtune.analysis.guard.memory import Breach
from vtune.analysis.guard.pace import is_slow
from vtune.analysis.guard.slow import Cause, why_slow
from vtune.analysis.renewed import renewed
from vtune.analysis.root_cause import worker_slots
from vtune.analysis.silence import may_wait_for_a_worker, where_it_hangs
from vtune.domain.events import TelemetrySample
from vtune.domain.launch import Achieved, Promise, Trouble
from vtune.domain.numbers import bytes_, rate, seconds
from vtune.domain.record import Measurement
from vtune.domain.renewal import Renewal
from vtune.domain.trial import EndedBy, TrialOutcome, TrialSpec, TrialStatus
from vtune.execution.engines.local import LocalEngine, LocalTrial
from vtune.execution.evidence import KernelWitness
from vtune.execution.evidence_stacks import take_stacks
from vtune.execution.launch_sight import LaunchSight, MemoryLimits
from vtune.execution.launch_stopped import Stopped
from vtune.execution.ram_limits import ram_limits
from vtune.execution.stopping import stands_still
from vtune.journal.files import dump_json
from vtune.journal.paths import TrialPaths
from vtune.journal.records import spec_to_json
from vtune.telemetry.gpus import GpuSampler
from vtune.telemetry.memory import shared_memory

POLL_S = 0.25
# What the supervisor takes beyond the grace: SIGTERM, three seconds, SIGKILL, reaping.
SUPERVISOR_PATIENCE_S = 30.0
# A breach is seen a look or two late, memory wobbles around its line, and SIGTERM is mostly heeded after a step.
REACTION_S, MARGIN = 10.0, 1.25
GPU_IDLE_PERCENT = 1.0
# Two windows in a row: one slow minute is nobody's news.
SLOW_WINDOWS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """What an attempt is held against."""

    promise: Promise
    trial: Measurement
    ram_limit_bytes: int | None = None
    vram_share: float | None = None
    vram_bytes: int | None = None
    hang_time_s: float = 120.0
    startup_time_s: float = 600.0
    grace_s: float = 120.0
    epoch_steps: int | None = None
    # Done by earlier attempts.
    steps_before: int = 0
    machine_ram_bytes: int | None = None
    # The trial ran with all that is set. Otherwise a departure from its rate renews nothing.
    learns: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why the guard ended it."""

    status: TrialStatus
    trouble: Trouble | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    outcome: TrialOutcome
    verdict: Verdict | None
    achieved: Achieved
    saved_at_step: int | None
    # That it did not end within its grace, in words.
    killed: str | None = None
    samples: tuple[TelemetrySample, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Told every second."""

    leader_pid: int | None
    supervisor_pid: int | None
    achieved: Achieved
    ending: str | None
    ram_bytes: int | None
    # How long there has been no sign of it, where that is worth a word, and how long makes a hang.
    still_s: float | None = None
    hang_after_s: float | None = None


Tell = Callable[[str, str], None]
Renew = Callable[[Renewal], None]


def run_attempt(
    engine: LocalEngine,
    spec: TrialSpec,
    folder: TrialPaths,
    guarded: Guarded,
    *,
    tell: Tell,
    show: Callable[[Standing], None],
    renew: Renew = lambda renewal: None,
) -> AttemptEnd:
    """The folder holds the config already. Ctrl-C asks it to save; a second one ends it at once."""
    dump_json(folder.spec, spec_to_json(spec))
    limits = ram_limits(guarded.ram_limit_bytes)
    dump_json(folder.limits, limits)
    with (
        KernelWitness() as kernel,
        GpuSampler(interval_s=1.0) as devices,
        engine.start(spec, folder.root) as trial,
        open(folder.telemetry, "ab", buffering=0) as telemetry,
    ):
        shm = shared_memory()
        memory = MemoryLimits(
            ram_bytes=limits.ram_bytes,
            shm_bytes=shm.size_bytes if shm is not None else None,
            vram_share=guarded.vram_share,
            vram_bytes=guarded.vram_bytes,
            steps_at_end=None
            if guarded.promise.steps is None
            else max(0, guarded.promise.steps - guarded.steps_before),
            epoch_steps=guarded.epoch_steps,
            save_s=MARGIN * guarded.grace_s + REACTION_S,
        )
        started_s = time.monotonic()
        in_rate = guarded.trial.restarts_in_rate
        watch = LaunchSight(folder, trial, devices, telemetry, started_s, restarts_in_rate=in_rate)
        guard = _Guard(folder, guarded, trial, watch, memory, started_s, tell, show, renew)
        while True:
            try:
                outcome = guard.follow()
                break
            except KeyboardInterrupt:
                try:
                    guard.interrupt()
                except KeyboardInterrupt:  # pressed twice
                    guard.interrupt()
        pids = watch.pids_seen()
        killed, anywhere = kernel.kills_of(pids), kernel.kills_of_machine()
        if killed or anywhere:
            outcome = replace(outcome, kernel_killed=killed, machine_oom_kills=anywhere)
        watch.look_at_counters(time.monotonic())
        return AttemptEnd(
            outcome=outcome,
            verdict=guard.verdict,
            achieved=guard.achieved(outcome.seconds),
            saved_at_step=watch.checkpoints.saved_at_step,
            killed=guard.killed,
            samples=tuple(watch.samples),
        )


class _Guard:
    def __init__(
        self,
        folder: TrialPaths,
        guarded: Guarded,
        trial: LocalTrial,
        watch: LaunchSight,
        memory: MemoryLimits,
        started_s: float,
        tell: Tell,
        show: Callable[[Standing], None],
        renew: Renew,
    ) -> None:
        self.verdict: Verdict | None = None
        self.killed: str | None = None
        self._folder, self._guarded, self._trial, self._watch, self._memory = folder, guarded, trial, watch, memory
        self._tell, self._show, self._renew, self._started_s = tell, show, renew, started_s
        self._ending: EndedBy | None = None
        self._interrupts = 0
        self._overdue_s = self._grace_over_s = float("inf")
        self._stopped = Stopped()
        self._has_counted = False
        self._slow, self._windows_seen, self._is_told_slow = 0, 0, False
        self._is_told_of_growth = False
        self._learning = Learning(guarded.promise, guarded.trial, self._why_slow)

    def follow(self) -> TrialOutcome:
        while True:
            outcome = self._trial.poll()
            if outcome is not None:
                self._tell_if_killed(outcome)
                return outcome if self._interrupts == 0 else replace(outcome, ended_by="interrupt")
            now = time.monotonic()
            if now > self._overdue_s:
                # The supervisor itself is stopped or stuck.
                self._trial.close("interrupt" if self._interrupts else self._ending or "hang")
                continue
            if self._watch.look(now):
                if self._ending is None:
                    self._judge(now)
                self._show(self._standing(now))
            time.sleep(POLL_S)

    def interrupt(self) -> None:
        self._interrupts += 1
        if self._interrupts > 1:
            self._tell("killed", "ended at once, without waiting for it to save")
            self._trial.kill("interrupt")
            self._overdue_s = time.monotonic() + SUPERVISOR_PATIENCE_S
            return
        self._tell("asked", f"asked to save and end (SIGTERM); it has {seconds(self._guarded.grace_s)} for it")
        self._end("interrupt")

    def _tell_if_killed(self, outcome: TrialOutcome) -> None:
        """What was pressed a second time has been told. A shell is gone at once, and what it had started is killed; a
        script that saved in the last seconds leaves by itself."""
        late = self._interrupts < 2 and time.monotonic() >= self._grace_over_s
        by_itself = outcome.exit_code in (0, 128 + signal.SIGTERM) and not outcome.stragglers
        if late and not by_itself and self.killed is None:
            lost = "what came after its last checkpoint is lost"
            self.killed = f"it did not end within {seconds(self._guarded.grace_s)}: killed; {lost}"
            self._tell("killed", self.killed)

    def achieved(self, whole_s: float) -> Achieved:
        """In samples where the trial has told how many make a step."""
        self._has_counted = self._has_counted or self._watch.progress.steps > 0
        if not self._folder.counts() and (self._has_counted or not self._folder.root.exists()):
            return Achieved(seconds=whole_s, counters_gone=True)
        batch, pace, watch = self._guarded.promise.mean_batch, self._watch.pace.whole.rate, self._watch
        steps = watch.progress.steps
        return Achieved(
            steps=steps,
            samples_per_s=pace * batch if pace is not None and batch else None,
            samples_per_s_whole=steps * batch / whole_s if batch and steps and whole_s > 0 else None,
            seconds=whole_s,
            left_s=self._watch.pace.left_s(self._steps_left()),
            ram_peak_bytes=watch.ram_peak_bytes,
            shm_peak_bytes=watch.shm_peak_bytes,
            vram_peak_bytes=watch.vram_peak_bytes,
        )

    def _steps_left(self) -> int | None:
        planned = self._guarded.promise.steps
        return None if planned is None else max(0, planned - self._guarded.steps_before - self._watch.progress.steps)

    def _standing(self, now: float) -> Standing:
        progress, hang_time_s = self._watch.progress, self._guarded.hang_time_s
        return Standing(
            leader_pid=self._trial.leader_pid,
            supervisor_pid=self._trial.own_pids[0],
            achieved=self.achieved(now - self._started_s),
            ending=self._ending,
            ram_bytes=self._watch.ram_bytes,
            still_s=progress.still_s(now, hang_time_s) if self._ending is None else None,
            hang_after_s=self._hang_after_s(),
        )

    def _judge(self, now: float) -> None:
        self._look_for_stops(now)
        self._look_at_pace(now)
        self._learn()
        breach = self._watch.breach(self._memory, now)
        self._tell_of_growth(breach)
        if breach is not None and breach.imminent:
            self.verdict = _of_breach(breach)
        elif (over := self._watch.over_vram(self._memory)) is not None:
            used, most = over
            self.verdict = Verdict(
                status=TrialStatus.OUT_OF_VRAM,
                trouble="vram",
                why=f"{bytes_(used)} of VRAM in use, over the limit of {bytes_(most)}",
            )
        elif self._hangs(now):
            facts = self._watch.facts
            stacks = take_stacks(self._folder, self._trial.pids(), [fact for fact in facts if fact.name == "stacks"])
            leader = next((fact.pid for fact in facts if fact.name == "optimizer"), None)
            where = where_it_hangs(stacks, leader, worker_slots(facts))
            self.verdict = Verdict(
                status=TrialStatus.HUNG,
                trouble="workers" if may_wait_for_a_worker(stacks) else None,
                why=f"{self._quiet(now)}, and nobody of it at work{f'; {where}' if where else ''}",
            )
        if self.verdict is not None:
            self._tell("verdict", f"{self.verdict.why}: asked to save and end")
            self._end("hang" if self.verdict.status is TrialStatus.HUNG else "limit")

    def _tell_of_growth(self, breach: Breach | None) -> None:
        """Hours before it would matter growth may still end: it is told once, and acted on when saving is due."""
        if breach is not None and not breach.imminent and not self._is_told_of_growth:
            self._is_told_of_growth = True
            self._tell("growing", f"{_growth(breach)}: it will be asked to save before that, if it goes on")

    def _end(self, why: EndedBy) -> None:
        self._ending = why
        self._trial.ask(why, self._guarded.grace_s)
        self._grace_over_s = time.monotonic() + self._guarded.grace_s
        self._overdue_s = self._grace_over_s + SUPERVISOR_PATIENCE_S

    def _look_for_stops(self, now: float) -> None:
        newest = self._watch.samples[-1].processes if self._watch.samples else ()
        for kind, text in self._stopped.look([process.pid for process in newest], now):
            self._tell(kind, text)
        if self._stopped.last_s == now:
            # Neither what was done when it began nor what came first after it is a rate.
            self._watch.pace.interruptions += 1
            self._learning.interruptions += 1

    def _hang_after_s(self) -> float:
        """While somebody had stopped it, it did not pause."""
        progress = self._watch.progress
        pause_s = self._stopped.without(progress.longest_gap_s)
        return replace(progress, longest_gap_s=pause_s).hang_after_s(self._guarded.hang_time_s)

    def _hangs(self, now: float) -> bool:
        progress, guarded = self._watch.progress, self._guarded
        if progress.last_sign_s is None:
            # Models are built and data indexed before the first batch, now and then without a sign of work.
            since_s = now - max(guarded.hang_time_s, guarded.startup_time_s)
        else:
            since_s = now - self._hang_after_s()
        if (progress.last_sign_s or self._started_s) > since_s:
            return False
        if self._stopped.last_s is not None and self._stopped.last_s > since_s:
            return False
        samples = self._watch.since(since_s)
        busy = [gpu.util_percent for one in samples for gpu in one.gpus if gpu.util_percent is not None]
        return stands_still(samples, since_s) and not any(util > GPU_IDLE_PERCENT for util in busy)

    def _quiet(self, now: float) -> str:
        progress = self._watch.progress
        if progress.last_sign_s is None:
            return f"no batch within {seconds(now - self._started_s)} of its start"
        quiet_s = now - progress.last_sign_s
        return f"no step, batch or checkpoint for {seconds(quiet_s)} after step {progress.steps} or later"

    def _look_at_pace(self, now: float) -> None:
        pace = self._watch.pace
        if pace.window is None or pace.windows == self._windows_seen:
            return
        self._windows_seen = pace.windows
        promise, window = self._guarded.promise, pace.window
        self._slow = self._slow + 1 if is_slow(window, promise) else 0
        each = (window.rate or 0.0) * (promise.mean_batch or 0)
        if self._slow >= SLOW_WINDOWS and not self._is_told_slow:
            self._is_told_slow = True
            _, why = self._slow_because(now - window.seconds)
            self._tell(
                "slow", f"slower than promised: {rate(each)} samples/s instead of {rate(promise.samples_per_s)}; {why}"
            )
        elif self._slow == 0 and self._is_told_slow:
            self._is_told_slow = False
            self._tell("recovered", f"as fast as promised again: {rate(each)} samples/s")

    def _slow_because(self, since_s: float) -> tuple[Cause, str]:
        return why_slow(self._watch.since(since_s), self._guarded.trial, self._guarded.machine_ram_bytes)

    def _learn(self) -> None:
        renewal = self._learning.look(self._watch.progress) if self._guarded.learns else None
        if renewal is None:
            return
        self._guarded = replace(self._guarded, promise=renewed(self._guarded.promise, renewal))
        # The run keeps the renewed promise: it is no longer slow.
        self._slow, self._is_told_slow = 0, False
        self._renew(replace(renewal, after_steps=self._guarded.steps_before + renewal.after_steps))

    def _why_slow(self, seconds_: float) -> Cause:
        return self._slow_because(time.monotonic() - seconds_)[0]


def _of_breach(breach: Breach) -> Verdict:
    status = {"ram": TrialStatus.OUT_OF_RAM, "shm": TrialStatus.OUT_OF_SHM, "vram": TrialStatus.OUT_OF_VRAM}
    return Verdict(status=status[breach.what], trouble=breach.what, why=_growth(breach))


def _growth(breach: Breach) -> str:
    name = {"ram": "RAM", "shm": "/dev/shm", "vram": "VRAM"}[breach.what]
    end = "the end of this epoch" if breach.of_epoch else "its end"
    at_end = "" if breach.at_end_bytes is None else f", and would be {bytes_(breach.at_end_bytes)} or more at {end}"
    return (
        f"{name} grows by {bytes_(breach.bytes_per_s)} a second: {bytes_(breach.used_bytes)} now, over the limit"
        f" of {bytes_(breach.limit_bytes)} in {seconds(breach.in_s)}{at_end}"
    )
