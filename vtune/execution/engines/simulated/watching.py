"""To the moment at which a simulated trial is over, as its watcher from outside would have it end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from vtune.analysis.beaten import LEAST_STEPS, surely_beaten
from vtune.analysis.draws import SlowShare
from vtune.analysis.ground import waits_for_ground
from vtune.analysis.measure import Observed, measure, windows_measured
from vtune.domain.compared import Beat
from vtune.domain.record import Measurement
from vtune.domain.trial import EndedBy
from vtune.execution.engines.simulated.memory import Held, death_of
from vtune.execution.engines.simulated.recording import Recording, record
from vtune.execution.engines.simulated.telemetry import look_on
from vtune.execution.engines.simulated.training import Training
from vtune.execution.observer import LEAST_GRACE_S, POLL_S, VRAM_S, Watch
from vtune.execution.sampling import SAMPLE_S
from vtune.execution.stopping import STEPS_BETWEEN, has_seen_enough, known_elsewhere, waits_for_long_steps

# Steps that are simulated at least before anything is measured of them.
FIRST_LOOK = 4
# Between looks that only count.
STEPS_TO_GROUND = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    by: EndedBy
    at_s: float
    exit_code: int | None = 0
    signal: int | None = None
    # What it leaves on stderr.
    words: str = ""
    # The answer by which the window was found to be full.
    estimate: Measurement | None = None

    @property
    def by_its_own_hand(self) -> bool:
        """It was asked to stop, and did."""
        return self.exit_code == 0 and self.by != "itself"


def follow(training: Training, watch: Watch, tell: Callable[[int], None], *, beat: Beat | None = None) -> End:
    """`tell`: at each look, how many steps were measured so far. An interrupt from there keeps them."""
    window = watch.window
    first_sign_s = _first_sign_s(training, window.startup_time_s)
    if first_sign_s is None:
        if training.over:
            return End(by="itself", at_s=training.now_s)
        return End(by="startup_time", at_s=training.started_s + window.startup_time_s, exit_code=None, signal=15)
    deadline_s = first_sign_s + window.trial_time_s
    # Half of the window first: whoever watches sees it grow.
    wanted = max(FIRST_LOOK, (window.steps + 2) // 2)
    if beat is not None:
        wanted = min(wanted, LEAST_STEPS)
    while True:
        training.go_on(wanted, deadline_s)
        early = _ended_early(training, watch)
        if early is not None:
            return early
        recording = record(training, training.now_s)
        windows = windows_measured(recording.roles, recording.loaded, recording.facts)
        measured = len(windows)
        tell(measured)
        goes_on = len(training.steps) >= wanted and not training.over
        if measured >= window.steps and goes_on and waits_for_ground(window, windows):
            wanted = len(training.steps) + STEPS_TO_GROUND
            continue
        if measured >= window.steps:
            known = known_elsewhere(watch.earlier, recording.roles)
            estimate = _estimate(training, recording, watch, known)
            waits = estimate is not None and waits_for_long_steps(estimate, window, watch.earlier, len(training.steps))
            if not waits and (estimate is None or has_seen_enough(estimate, window, known.batches)):
                end = _asked_to_stop(training, watch, "window", training.steps[-1].ended_s + POLL_S / 2)
                return replace(end, estimate=estimate)
        if training.over:
            return End(by="itself", at_s=training.now_s)
        if len(training.steps) < wanted:
            return _asked_to_stop(training, watch, "trial_time", deadline_s)
        if beat is not None and _is_beaten(training, recording, watch, beat, measured):
            return _asked_to_stop(training, watch, "beaten", training.steps[-1].ended_s + POLL_S / 2)
        wanted = len(training.steps) + _steps_to_the_next_look(measured, window.steps, beat)


def _steps_to_the_next_look(measured: int, steps: int, beat: Beat | None) -> int:
    if measured >= steps:
        return STEPS_BETWEEN
    if beat is None:
        return steps - measured
    return min(steps - measured, STEPS_BETWEEN if measured >= LEAST_STEPS else LEAST_STEPS - measured)


def _is_beaten(training: Training, recording: Recording, watch: Watch, beat: Beat, measured: int) -> bool:
    if measured < LEAST_STEPS or watch.scout:
        return False
    known = known_elsewhere(watch.earlier, recording.roles)
    seen = recording.observed(training.started_s)
    if not surely_beaten(_measure(seen, watch, known, provisional=True), beat, watch.cores):
        return False
    # Neighbours are seen in the telemetry alone.
    seen = replace(seen, telemetry=look_on(training, Held(training), training.weather, training.now_s))
    return surely_beaten(_measure(seen, watch, known, provisional=False), beat, watch.cores)


def interrupted(training: Training) -> End:
    """Ctrl-C comes at any moment, also in the middle of an event, after which its world would not go on: it is ended
    from outside, with what it has told by then."""
    return End(by="interrupt", at_s=training.now_s, exit_code=None, signal=15)


def _first_sign_s(training: Training, within_s: float) -> float | None:
    """When its first batch came; the simulation stands at its first step then."""
    give_up_s = training.started_s + within_s
    training.go_on(1, give_up_s)
    first_s = training.deliveries[0].returned_s if training.deliveries else math.inf
    return first_s if first_s <= give_up_s else None


def _estimate(training: Training, recording: Recording, watch: Watch, known: SlowShare) -> Measurement | None:
    """None where the window is full whatever it would say."""
    if watch.scout or watch.window.steps >= watch.window.max_steps:
        return None
    return _measure(recording.observed(training.started_s), watch, known, provisional=True)


def _measure(seen: Observed, watch: Watch, known: SlowShare, *, provisional: bool) -> Measurement:
    return measure(
        seen,
        watch.planned,
        watch.price,
        batch_factor=watch.batch_factor,
        earlier=known,
        cores=watch.cores,
        provisional=provisional,
    )


def _ended_early(training: Training, watch: Watch) -> End | None:
    """By its memory: what the machine does not have, or what the user does not allow."""
    held = Held(training)
    death = death_of(training, held)
    over_s = _over_limit_s(training, held, watch)
    if death is not None and (over_s is None or death.at_s <= over_s):
        return End(by="itself", at_s=death.at_s, exit_code=death.exit_code, words=death.words)
    if over_s is not None and over_s <= training.now_s:
        # Killed at once: no step is waited for.
        return _or_death(training, End(by="limit", at_s=max(over_s, training.now_s), exit_code=None, signal=9))
    return None


def _over_limit_s(training: Training, held: Held, watch: Watch) -> float | None:
    """When the watcher notices."""
    noticed = []
    if watch.ram_limit_bytes is not None and (at_s := held.ram_over_s(watch.ram_limit_bytes)) is not None:
        noticed.append(at_s + SAMPLE_S)
    device = training.surface.device
    if watch.vram_limit is not None and device is not None:
        most = watch.vram_limit.resolve(device.vram_bytes)
        if most is not None and (at_s := held.vram_over_s(most)) is not None:
            noticed.append(at_s + VRAM_S)
    return min(noticed, default=None)


def _asked_to_stop(training: Training, watch: Watch, by: EndedBy, asked_s: float) -> End:
    """It ends itself after its next step; a long one is not waited for."""
    give_up_s = asked_s + max(LEAST_GRACE_S, 3 * _slowest_step_s(training, asked_s))
    while not training.over and (not training.steps or training.steps[-1].ended_s < asked_s):
        before = len(training.steps)
        training.go_on(before + 1, give_up_s)
        if len(training.steps) == before:
            break
    after = [one.ended_s for one in training.steps if one.ended_s >= asked_s]
    if after:
        return _or_death(training, End(by=by, at_s=after[0]))
    if training.over:
        return _or_death(training, End(by=by, at_s=max(asked_s, training.now_s)))
    return _or_death(training, End(by=by, at_s=give_up_s, exit_code=None, signal=15))


def _or_death(training: Training, end: End) -> End:
    death = death_of(training, Held(training))
    if death is None or death.at_s > end.at_s:
        return end
    return End(by=end.by, at_s=death.at_s, exit_code=death.exit_code, words=death.words)


def _slowest_step_s(training: Training, until_s: float) -> float:
    ends = [one.ended_s for one in training.steps if one.ended_s <= until_s]
    return max((b - a for a, b in pairwise(ends)), default=0.0)
