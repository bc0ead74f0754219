"""Whether a trial that still runs is surely slower than the leader: then its time is better spent on another one.

A wrong answer here loses a winner and is never looked at again, so every doubt is the trial's: its interval is wider
than a report's, for it is looked at again and again until it looks bad; what a run pays beside its steps was seen once,
if at all; and windows whose beginning may be slower than the rest are not judged.
"""

from __future__ import annotations

import math

from scipy.special import stdtrit

from vtune.analysis.comparable import has_rate, launched_rate, lost_in, measured_enough, rate_in
from vtune.analysis.compare import Z95, Rate, launched
from vtune.analysis.queues import USUAL_PREFETCH
from vtune.domain.compared import Beat, RankedBy
from vtune.domain.numbers import rate
from vtune.domain.record import Measurement, TrialRecord

LEAST_STEPS = 20
# Workers begin all at once and are in each other's way then: two rounds beyond the first, and some.
ROUNDS_BY_WORKER, BATCHES_BEYOND = 2, 10
# The leader's own window may have flattered it: what is less far below is measured to its end.
FAR_BELOW = 0.95
# 99.9 % in place of 95 %: a trial is looked at a dozen times. Of 1500 launches as fast as the leader, itself the
# luckiest of three, so many were ended: none where batches spread by up to their mean, two in a thousand where 2 % of
# them take ten times as long. (By 99.5 %: three and eight in a thousand.)
ONE_SIDE = 1 - 0.001 / 2


def beat_of(leader: TrialRecord, ranked_by: RankedBy, cores: float | None) -> Beat | None:
    """What a trial has to reach to be worth its time; None where the leader itself is not known well enough.
    `ranked_by`: of all that is compared (`metric_of`)."""
    if not has_rate(leader) or not measured_enough(leader) or leader.measurement.fed_from_stock:
        return None
    if leader.beaten is not None or not getattr(leader.measurement, ranked_by):
        return None
    led = launched_rate(leader, ranked_by, cores)
    if led.interval is None:
        return None
    return Beat(
        trial=leader.trial,
        ranked_by=ranked_by,
        samples_per_s=led.value,
        at_least=led.interval[0] * _if_some_were_slow(leader.measurement),
        cache=leader.measurement.cache,
    )


def surely_beaten(measured: Measurement, beat: Beat, cores: float | None = None) -> bool:
    """`measured`: as far as the trial has come; a provisional answer will do."""
    if measured.steps_measured < LEAST_STEPS or not _is_like_a_run(measured):
        return False
    if "unknown" not in (measured.cache, beat.cache) and measured.cache != beat.cache:
        return False
    most = most_of(measured, beat.ranked_by, cores)
    return most is not None and most < FAR_BELOW * beat.at_least


def most_of(measured: Measurement, ranked_by: RankedBy, cores: float | None = None) -> float | None:
    """What another launch of it would surely not pass; None where no interval is known."""
    if not measured.samples_per_s or measured.samples_per_s_ci95 is None:
        return None
    steady = rate_in(measured, "samples_per_s")
    ranked = rate_in(measured, ranked_by) if getattr(measured, ranked_by) else steady
    above = _above(ranked, lost_in(measured, cores))
    if above is None:
        return None
    wider = float(stdtrit(measured.steps_measured - 1, ONE_SIDE)) / Z95
    besides = math.log(max(1.0, steady.value / ranked.value))
    return ranked.value * math.exp(math.hypot(wider * above, besides))


def beaten_words(measured: Measurement, beat: Beat, cores: float | None = None, *, surely: bool) -> str:
    if not surely:
        return (
            f"ended after {measured.steps_measured} steps: it looked surely slower than trial {beat.trial}, and all"
            " that it had shown by its end leaves that open"
        )
    most = most_of(measured, beat.ranked_by, cores)
    own = f": at most {rate(most)} samples/s" if most is not None else ""
    return f"ended after {measured.steps_measured} steps{own}, trial {beat.trial} has at least {rate(beat.at_least)}"


def _if_some_were_slow(measured: Measurement) -> float:
    """Where rare slow batches had no chance to be seen, the leader may have been lucky, and who saw one is not."""
    tail, steady = measured.tail, measured.samples_per_s
    if tail is None or tail.samples_per_s_at_worst is None or not steady:
        return 1.0
    return min(1.0, tail.samples_per_s_at_worst / steady)


def _above(found: Rate, lost: float) -> float | None:
    """How far its interval reaches up, as a logarithm."""
    interval = launched(found, lost).interval
    return None if interval is None else math.log(interval[1] / found.value)


def _is_like_a_run(measured: Measurement) -> bool:
    """Ready batches only flatter, so they need not be gone; what must be over is what makes a window's beginning slow:
    workers that all begin at once, a queue that is filled, a restart that so few steps carry."""
    workers, prefetch = (measured.effective_settings.get(name) for name in ("workers", "prefetch_factor"))
    many = workers if isinstance(workers, int) else 0
    match measured.rate_from:
        case "twin":
            cost = measured.worker_cost
            known = cost.batches if cost is not None and cost.batches is not None else 0
            return not many or known >= ROUNDS_BY_WORKER * many + BATCHES_BEYOND
        case "batch_means":
            ahead = prefetch if isinstance(prefetch, int) else USUAL_PREFETCH
            return measured.steps_measured >= LEAST_STEPS + ROUNDS_BY_WORKER * many * ahead
        case _:
            return False
