"""A running trial as its files and its machine show it: how far it is, and whether it has to end."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

from vtune.analysis.beaten import LEAST_STEPS, surely_beaten
from vtune.analysis.comparable import own_measurement
from vtune.analysis.draws import SlowShare
from vtune.analysis.gpus import memory_of_gpus, over_vram_limit
from vtune.analysis.ground import steps_wanted, waits_for_ground
from vtune.analysis.growth_copies import worth_reading
from vtune.analysis.measure import Observed, measure, windows_measured
from vtune.analysis.roles import Roles, find_roles
from vtune.domain.experiment import Limit, PlannedRun, Price, Window
from vtune.domain.progress import TrialProgress
from vtune.domain.record import Measurement, TrialRecord
from vtune.domain.trial import EndedBy, TrialSpec
from vtune.execution.evidence_stacks import take_stacks
from vtune.execution.running import RunningTrial
from vtune.execution.sampling import Sampling
from vtune.execution.spending import Spending
from vtune.execution.stopping import (
    STEPS_BETWEEN,
    has_seen_enough,
    known_elsewhere,
    stands_still,
    waits_for_long_steps,
    waits_for_memory,
    waits_for_validation,
)
from vtune.files import write_atomically
from vtune.journal.paths import TrialPaths
from vtune.journal.step_log import StepLog

Phase = Literal["starting", "loading", "stepping", "ending"]

# New records are read this often: the trial overshoots its window by about as much. On full cores there is only
# this share of a core for it, and the last of the three is the longest pause.
POLL_S, POLL_SHARE, SELDOM_POLL_S = 0.1, 0.002, 0.5
PROGRESS_S = 0.5
# A look goes through all steps so far, an estimate replays them: on cores that are all busy with loader workers, both
# are taken from the training (decision 0006). Shares of one core.
LOOKS_SHARE, ESTIMATES_SHARE = 0.003, 0.01
# A provisional answer is made anew at most so often, and after so many more steps once the window could end.
ESTIMATE_S = 2.0
# Memory of the devices is judged from all samples so far, which grow; and so is whether the window may end.
VRAM_S = JUDGE_S = 1.0
# Training and validation, the pass before and this one: older workers are gone, and their numbers may be others' now.
RECENT_PASSES = 4
# A provisional answer is shown from this step on.
SHOWN_FROM_STEP = 5
# Told to stop, a training may be inside a long step or a long `next()`.
LEAST_GRACE_S = 10.0
# What the supervisor takes beyond the grace: SIGTERM, three seconds, SIGKILL, reaping.
SUPERVISOR_PATIENCE_S = 15.0
# A hang is as long as the window says, and at least this many times the slowest step so far.
HANG_STEPS = 10.0
# A trial whose time is up and that did nothing for this share of it has not run, it has stopped.
STILL_SHARE = 0.25
# A search for the ceiling that has not begun by then does not meet its loader.
CEILING_STEPS, CEILING_S = 100, 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What a trial is measured against while it runs."""

    window: Window
    planned: PlannedRun
    price: Price | None = None
    batch_factor: float = 1.0
    ram_limit_bytes: int | None = None
    # Or vtune's own, of a search for the ceiling.
    limit_by_user: bool = True
    vram_limit: Limit | None = None
    # Of the machine: what its neighbours may have taken is judged by it.
    cores: float | None = None
    # The study's other trials, for what is too rare for one window.
    earlier: Sequence[TrialRecord] = ()
    # Only learn which loader feeds the steps; the numbers are nobody's.
    scout: bool = False
    # The training is fed from memory, and tells itself when it has seen enough.
    ceiling: bool = False


class Observer:
    """What the files of a trial say of it, and whether it has seen enough."""

    def __init__(
        self,
        spec: TrialSpec,
        folder: TrialPaths,
        watch: Watch,
        trial: RunningTrial,
        sampling: Sampling,
        started_s: float,
    ) -> None:
        self.started_s = started_s
        self.progress_due = started_s
        self._spec, self._folder, self._watch, self._trial, self._sampling = spec, folder, watch, trial, sampling
        self.ending: EndedBy = "itself"
        self._overdue_s = math.inf
        self._log = StepLog(folder)
        spending = partial(Spending, now_s=started_s, cores_are_full=sampling.cores_are_full)
        self._looks = spending(LOOKS_SHARE, every_s=POLL_S)
        self._estimates = spending(ESTIMATES_SHARE, every_s=ESTIMATE_S)
        self._vram_due_s = started_s
        # Records since the last look; with so many steps there is one, however dear.
        self._has_news, self._look_at = False, 0
        self._copies_read = 0
        self._roles: Roles | None = None
        self._measured, self._waits_for_ground = 0, False
        self._steps_wanted = steps_wanted(watch.window, ())
        self._slowest_step_s = 0.0
        self._judge_due_s = started_s
        self._first_sign_s: float | None = None
        self._last_event_s = self.started_s
        self._estimate: Measurement | None = None
        self._estimated_at = -1
        self._beat_look_at = LEAST_STEPS

    def pause_s(self, spent_s: float) -> float:
        """Before the next look, of which the last one took so much processor time."""
        return min(SELDOM_POLL_S, max(POLL_S, spent_s / POLL_SHARE)) if self._sampling.may_rest() else POLL_S

    def look(self, now: float) -> None:
        """At the machine on a fixed grid, at the step log when it grew."""
        self._sampling.look(now)
        if self._log.refresh():
            self._has_news, self._last_event_s = True, now
            self._meet_those_who_came(now)
        if self._has_news and (self._looks.is_due(now) or len(self._log.steps) >= self._look_at):
            with self._looks.on(now):
                self._go_through_steps(now)

    def _meet_those_who_came(self, now: float) -> None:
        if self._first_sign_s is None and (self._log.delivered or self._log.backwards or self._log.steps):
            self._first_sign_s = now
            self._sampling.training_begins(now)
        self._sampling.meet_devices(self._log.facts_named("device"))
        recent = self._log.facts_named("pass")[-RECENT_PASSES:]
        self._sampling.meet_workers({pid for fact in recent for pid in fact.data.get("worker_pids") or ()}, now)

    def _go_through_steps(self, now: float) -> None:
        self._has_news = False
        self._roles = find_roles(self._log.steps, self._log.delivered, self._log.facts)
        windows = windows_measured(self._roles, self._log.loaded, self._log.facts)
        self._measured, self._waits_for_ground = len(windows), waits_for_ground(self._watch.window, windows)
        self._steps_wanted = steps_wanted(self._watch.window, windows)
        self._look_at = len(self._log.steps) + self._steps_to_the_next_look()
        steps = self._roles.steps if self._roles is not None else ()
        self._slowest_step_s = max((b.ended_s - a.ended_s for a, b in pairwise(steps)), default=0.0)
        self._judge_due_s = now
        self._read_copies(now)

    def _steps_to_the_next_look(self) -> int:
        """Until memory is to be read, or the window can be full; beyond its most steps it waits for something else, and
        a look costs as much as there are steps."""
        window, measured = self._watch.window, self._measured
        wanted = (*self._copies_due(), window.steps, window.max_steps)
        return next((steps - measured for steps in wanted if steps > measured), max(STEPS_BETWEEN, measured // 10))

    def _copies_due(self) -> tuple[int, int]:
        return 1, self._watch.window.steps // 2 + 1

    def _read_copies(self, now: float) -> None:
        """Growth by copies on write shows in the dear readings alone: one after the start-up, one halfway, and the one
        at the window's end."""
        if self._copies_read < 2 and self._measured >= self._copies_due()[self._copies_read]:
            self._copies_read += 1
            if worth_reading(self._log.facts_named("pass")[-RECENT_PASSES:]):
                self._sampling.sample(now, with_pss=True, needed=True)

    def reason_to_end(self, now: float) -> EndedBy | None:
        if self.ending != "itself":
            return None
        window = self._watch.window
        if self._over_a_limit(now):
            return "limit"
        if self._first_sign_s is None:
            if now - self.started_s > window.startup_time_s:
                return "startup_time"
            return self._hang_at_the_start(now)
        if now >= self._judge_due_s:
            # At once after each look; else only memory and time go on.
            self._judge_due_s = now + JUDGE_S
            if self._enough(now):
                return "window"
            if self._is_beaten(now):
                return "beaten"
        if now - self._first_sign_s > window.trial_time_s:
            still_s = max(STILL_SHARE * window.trial_time_s, HANG_STEPS * self._slowest_step_s)
            return "standstill" if now - self._last_event_s > still_s else "trial_time"
        if now - self._last_event_s > max(window.hang_time_s, HANG_STEPS * self._slowest_step_s):
            return "hang"
        return None

    def _hang_at_the_start(self, now: float) -> EndedBy | None:
        """Before its first batch a training may be quiet for long; once it has asked for one, somebody is at work."""
        since_s = now - self._watch.window.hang_time_s
        asked = [fact.t_s for fact in self._log.facts_named("pass")]
        if not asked or min(asked) > since_s:
            return None
        return "hang" if stands_still(self._sampling.samples, since_s) else None

    def _over_a_limit(self, now: float) -> bool:
        # The supervisor's watchdog is faster; this holds where a defect ended it.
        limit, used = self._watch.ram_limit_bytes, self._sampling.ram_bytes
        if limit is not None and used is not None and used > limit:
            return True
        if self._watch.vram_limit is None or now < self._vram_due_s:
            return False
        self._vram_due_s = now + VRAM_S
        sampling = self._sampling
        gpus = memory_of_gpus(telemetry=sampling.samples, gpus=sampling.gpus, facts=self._log.facts)
        return over_vram_limit(gpus, self._watch.vram_limit) is not None

    def ask_to_end(self, reason: EndedBy, grace_s: float | None = None) -> None:
        self.ending = reason
        if self._has_news and reason != "limit":
            # The last look may be long ago, and no rank may have passed the step that all of them shall end after.
            self._go_through_steps(time.monotonic())
        if reason in ("hang", "standstill", "startup_time") or (reason == "trial_time" and self._roles is None):
            take_stacks(self._folder, self._trial.pids(), self._log.facts_named("stacks"))
        if reason in ("window", "beaten"):
            # The tree is still whole: its memory is read once more.
            self._sampling.sample(time.monotonic(), with_pss=True, needed=True)
        if grace_s is None:
            grace_s = max(LEAST_GRACE_S, 3 * self._slowest_step_s)
        if self._roles is None:
            grace_s = 0.0  # only a training that steps can end itself
        try:
            write_atomically(self._folder.stop, f"{self._stop_at()}\n")
        except OSError:
            grace_s = 0.0  # a full disk: it cannot be told, so it is ended from outside
        self._overdue_s = time.monotonic() + grace_s + SUPERVISOR_PATIENCE_S
        if reason == "limit":
            # No grace: what it takes meanwhile is the machine's, and what was measured is in its files already.
            self._trial.kill(reason)
        else:
            self._trial.end(reason, grace_s)

    def overdue(self, now: float) -> bool:
        return now > self._overdue_s

    def pids_seen(self) -> set[int]:
        sampled = {process.pid for sample in self._sampling.samples for process in sample.processes}
        passes = {pid for fact in self._log.facts_named("pass") for pid in fact.data.get("worker_pids") or ()}
        return sampled | passes | {fact.pid for fact in self._log.facts}

    def look_once_more(self) -> None:
        """After the end: what is still used of /dev/shm was never the trial's."""
        self._sampling.sample(time.monotonic(), with_pss=False)

    def progress(self, now: float) -> TrialProgress:
        self.progress_due = now + PROGRESS_S
        steps = len(self._roles.steps) if self._roles else 0
        phase: Phase
        if self.ending != "itself":
            phase = "ending"
        elif steps:
            phase = "stepping"
        else:
            phase = "loading" if self._first_sign_s is not None else "starting"
        return TrialProgress(
            spec=self._spec,
            phase=phase,
            steps=self._measured,
            steps_wanted=self._steps_wanted,
            seconds=now - self.started_s,
            provisional=self._estimate_now(now) if steps > SHOWN_FROM_STEP and not self._watch.ceiling else None,
            ram_bytes=self._sampling.ram_bytes,
            sizes_tried=len(self._log.facts_named("ceiling_rung")) if self._watch.ceiling else None,
        )

    def _stop_at(self) -> int:
        """Ranks must agree on the step they end after: one that none of them can have passed when it reads the file."""
        if self._roles is None or len(self._roles.ranks) < 2:
            return 0
        times = [b.ended_s - a.ended_s for a, b in pairwise(self._roles.steps)]
        fastest = min(times[-20:], default=1.0)
        return self._roles.steps[-1].number + 2 + int(1.0 / max(fastest, 1e-3))

    def _enough(self, now: float) -> bool:
        window = self._watch.window
        if self._watch.ceiling:
            return self._ceiling_is_found()
        if self._measured < window.steps:
            return False
        if self._watch.scout:
            return True
        if waits_for_validation(window, self._roles, self._log.facts):
            return False
        if waits_for_memory(self._sampling.samples, self._roles, self._measured):
            return False
        if self._waits_for_ground:
            return False
        if window.steps >= window.max_steps:
            return True
        least = window.steps if self._measured < window.max_steps else window.max_steps
        if self._estimated_at >= least and not self._estimate_is_due(now):
            return False  # that one was not enough
        estimate = self._estimate_afresh(now)
        if estimate is None:
            return True
        if waits_for_long_steps(estimate, window, self._watch.earlier, len(self._roles.steps) if self._roles else 0):
            return False
        return self._measured >= window.max_steps or has_seen_enough(estimate, window, self._known_elsewhere().batches)

    def _is_beaten(self, now: float) -> bool:
        beat = self._spec.beat
        if beat is None or self._watch.scout or self._measured < self._beat_look_at:
            return False
        if self._estimated_at != self._measured and not self._estimates.is_due(now):
            return False
        estimate = self._estimate if self._estimated_at == self._measured else self._estimate_afresh(now)
        self._beat_look_at = self._measured + STEPS_BETWEEN
        cores = self._watch.cores
        # Quickly at each look; what would end it is made once more, as its record will tell it.
        return (
            estimate is not None
            and not (estimate.others is not None and estimate.others.busy)
            and surely_beaten(estimate, beat, cores)
            and surely_beaten(self._measured_whole(now), beat, cores)
        )

    def _ceiling_is_found(self) -> bool:
        if self._log.facts_named("ceiling_done"):
            return True
        if self._log.facts_named("ceiling_drain") or self._first_sign_s is None:
            return False
        return self._measured >= CEILING_STEPS and self._last_event_s - self._first_sign_s > CEILING_S

    def _estimate_now(self, now: float) -> Measurement | None:
        # Whoever waits for its end needs no number that the record will have.
        if self.ending == "itself" and self._estimates.is_due(now) and self._estimated_at != self._measured:
            return self._estimate_afresh(now)
        return self._estimate

    def _estimate_is_due(self, now: float) -> bool:
        return self._measured >= self._estimated_at + STEPS_BETWEEN and self._estimates.is_due(now)

    def _estimate_afresh(self, now: float) -> Measurement | None:
        if self._roles is not None:
            with self._estimates.on(now):
                self._estimated_at, self._estimate = self._measured, self._measure(provisional=True)
        return self._estimate

    def _measured_whole(self, now: float) -> Measurement:
        with self._estimates.on(now):
            return self._measure(provisional=False)

    def _measure(self, *, provisional: bool) -> Measurement:
        watch = self._watch
        return measure(
            self._observed(),
            watch.planned,
            watch.price,
            batch_factor=watch.batch_factor,
            own=own_measurement(watch.earlier),
            earlier=self._known_elsewhere(),
            cores=watch.cores,
            provisional=provisional,
        )

    def _known_elsewhere(self) -> SlowShare:
        return known_elsewhere(self._watch.earlier, self._roles)

    def _observed(self) -> Observed:
        """Without the devices: nothing that is decided meanwhile needs them, and reading them again would cost."""
        return Observed(
            roles=self._roles,
            loaded=self._log.loaded,
            delivered=self._log.delivered,
            steps=self._log.steps,
            backwards=self._log.backwards,
            facts=self._log.facts,
            telemetry=self._sampling.samples,
            device_steps=self._log.device_steps,
            stages=self._log.stages,
            started_s=self.started_s,
        )
