"""Rare slow batches: a window of fifty sees one or none of what one batch in a hundred does to a long run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vtune.analysis.costs import Costs
from vtune.analysis.draws import SLOW_FROM, SlowShare
from vtune.analysis.twin import FEW, replay
from vtune.domain.record import Measurement, Tail, TrialRecord

# The slowest 2 % of the batches carry more than a tenth of the time.
SLOWEST = 0.02
MUCH_OF_THE_TIME = 0.10
# With none in n batches, up to 3/n may be slow (95 %).
RULE_OF_THREE = 3.0
AS_SLOW_AS = 10.0


def slow_of(load_s: NDArray[np.float64], kind: NDArray[np.int_]) -> tuple[float, ...]:
    """Those that took several times the median of their kind, in medians."""
    ratios = np.ones(len(load_s))
    for one in np.unique(kind):
        own = load_s[kind == one]
        if (middle := float(np.median(own))) > 0:
            ratios[kind == one] = own / middle
    return tuple(round(float(one), 2) for one in np.sort(ratios) if one > SLOW_FROM)


def pooled(records: Iterable[TrialRecord], batch_size: object) -> SlowShare:
    """Over a study's earlier trials with batches of this size: medians take out what settings did to the costs."""
    batches, ratios = 0, list[float]()
    for record in records:
        cost = record.measurement.worker_cost
        if cost is not None and cost.batches and record.measurement.effective_settings.get("batch_size") == batch_size:
            batches += cost.batches
            ratios += cost.slow
    return SlowShare(batches=batches, ratios=tuple(ratios))


def together(earlier: SlowShare | None, costs: Costs) -> SlowShare:
    slow, count = slow_of(costs.load_s, costs.load_kind), len(costs.load_s)
    if earlier is None:
        return SlowShare(batches=count, ratios=slow)
    return SlowShare(batches=earlier.batches + count, ratios=(*earlier.ratios, *slow))


def with_tail(measured: Measurement, costs: Costs, earlier: SlowShare | None) -> Measurement:
    if not costs.workers or not len(costs.load_s):
        return measured
    known = together(earlier, costs)
    tail = Tail(batches=known.batches, slow=len(known.ratios), matters=_matters(costs.load_s, known.ratios))
    if not known.ratios and measured.samples_per_s:
        share = min(1.0, RULE_OF_THREE / known.batches)
        tail = replace(tail, share_at_most=share)
        # Beside costs that recur one slow row more would break their pattern, and the two replays not compare.
        if len(costs.load_pattern) == 1:
            worst = replay(_with_some_slow(costs, share), replicates=FEW).rate / replay(costs, replicates=FEW).rate
            tail = replace(tail, samples_per_s_at_worst=measured.samples_per_s * min(1.0, worst))
    return replace(measured, tail=tail)


def _matters(load_s: NDArray[np.float64], slow: Sequence[float]) -> bool:
    slowest = np.sort(load_s)[-max(1, round(SLOWEST * len(load_s))) :]
    return bool(slow) or float(slowest.sum()) > MUCH_OF_THE_TIME * float(load_s.sum())


def _with_some_slow(costs: Costs, share: float) -> Costs:
    """As rows: the usual ones often enough that one slow row among them is the share."""
    times = max(1, round(1 / share / len(costs.load_s)))
    middle = float(np.median(costs.load_s))
    return replace(
        costs,
        load_s=np.append(np.tile(costs.load_s, times), AS_SLOW_AS * middle),
        cpu_s=np.append(np.tile(costs.cpu_s, times), 0.0),
        dispatch_s=np.append(np.tile(costs.dispatch_s, times), float(np.median(costs.dispatch_s))),
        load_kind=np.zeros(times * len(costs.load_s) + 1, int),
        load_pattern=np.zeros(1, int),
    )
