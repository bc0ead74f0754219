"""When a trial has seen enough: steps, and an interval that is narrow enough for the decision between settings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from vtune.analysis.draws import SlowShare
from vtune.analysis.estimate import half_width
from vtune.analysis.growth import is_undecided
from vtune.analysis.period import LEAST_SEEN
from vtune.analysis.roles import Roles
from vtune.analysis.tail import pooled
from vtune.analysis.validation import has_seen_validation, validation_seen
from vtune.domain.events import Fact, TelemetrySample
from vtune.domain.experiment import Window
from vtune.domain.record import Measurement, TrialRecord

# An estimate takes some 20 ms of a core that the training could use: it is made after this many more steps.
STEPS_BETWEEN = 5
# Where the training waits for its loader, one slow batch in fifty halves the rate, and half as many batches as these
# would show none of them in every third window.
BATCHES_FOR_A_TAIL = 100
WAITS = 0.05
# Times the most steps of a window, for steps that are long and rare.
LONGER = 3
# Of a core: a process that waits for its workers looks every few seconds whether they still live.
ASLEEP = 0.01
# The first of the looks at a time span lies so near to its beginning.
LOOK_S = 1.0


def has_seen_enough(measured: Measurement, window: Window, batches_known: int = 0) -> bool:
    """`measured`: as far as the trial has come; a provisional one will do. `batches_known`: of the study's other trials
    with batches of this size."""
    if measured.steps_measured < window.steps:
        return False
    if measured.steps_measured >= window.max_steps:
        return True
    if measured.samples_per_s is None:
        return True  # no loader feeds the steps: more of them would not tell more
    if measured.rate_from == "batch_means":
        return False  # not replayed, so only a longer window tells whether ready batches feed it
    if not _workers_are_known(measured, batches_known):
        return False
    width = half_width(measured.samples_per_s, measured.samples_per_s_ci95)
    return width is not None and width <= window.narrow


def waits_for_long_steps(measured: Measurement, window: Window, earlier: Sequence[TrialRecord], steps: int) -> bool:
    """A step for which the training stood still is seen until it is known how often it comes: once in a window of a
    hundred it may come in every hundredth or in every tenth thousandth. `steps`: of the training so far."""
    cost = measured.training_cost
    if cost is None or window.steps == window.max_steps or measured.steps_measured >= LONGER * window.max_steps:
        return False
    if cost.period_steps is not None:
        return False
    known = max((one for record in earlier if (one := _long_period(record)) is not None), default=None)
    if known is not None:
        return measured.steps_measured <= LEAST_SEEN * known
    long = cost.long_steps
    if not long or len(long) > LEAST_SEEN:
        return False
    # Were it regular, it would have come again by then.
    return steps <= long[-1] + max(long[0], *(b - a for a, b in pairwise((0, *long)))) + STEPS_BETWEEN


def _long_period(record: TrialRecord) -> int | None:
    cost = record.measurement.training_cost
    return cost.period_steps if cost is not None and cost.long_steps else None


def waits_for_validation(window: Window, roles: Roles | None, facts: Sequence[Fact]) -> bool:
    """Whatever else was seen."""
    if not window.validation or roles is None:
        return False
    return not has_seen_validation(validation_seen(roles, facts))


def waits_for_memory(telemetry: Sequence[TelemetrySample], roles: Roles | None, steps_measured: int) -> bool:
    """However many steps there were: at most two or three seconds, and only where memory grows."""
    if roles is None or not steps_measured:
        return False
    return is_undecided(telemetry, roles, roles.steps[max(0, len(roles.steps) - 1 - steps_measured)].ended_s)


def stands_still(telemetry: Sequence[TelemetrySample], since_s: float) -> bool:
    """Since then nobody of the tree has computed, read, come or gone: what begins slowly does at least one of these."""
    window = [sample for sample in telemetry if sample.t_s >= since_s]
    if len(window) < 2 or window[0].t_s > since_s + LOOK_S:
        return False
    before, after = ({process.pid: process for process in sample.processes} for sample in (window[0], window[-1]))
    if not before or before.keys() != after.keys():
        return False
    if any(before[pid].requested_bytes != after[pid].requested_bytes for pid in before):
        return False
    busy_s = sum(after[pid].cpu_s - before[pid].cpu_s for pid in before)
    return busy_s < ASLEEP * (window[-1].t_s - window[0].t_s)


def known_elsewhere(earlier: Sequence[TrialRecord], roles: Roles | None) -> SlowShare:
    """What the study's other trials know of slow batches of this size."""
    return pooled(earlier, roles.settings.get("batch_size") if roles is not None else None)


def _workers_are_known(measured: Measurement, batches_known: int) -> bool:
    workers, cost = measured.effective_settings.get("workers"), measured.worker_cost
    if not isinstance(workers, int) or not workers or cost is None or cost.batches is None:
        return True
    # All begin at once, and get in each other's way then as never after: two rounds beyond the first, and some.
    if cost.batches < 2 * workers + 10:
        return False
    waits = (measured.data_wait_fraction or 0.0) > WAITS
    return not waits or cost.batches + batches_known >= BATCHES_FOR_A_TAIL
