"""Rare slow batches: a window of fifty sees one or none of what one batch in a hundred does to a long run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vtune.analysis.costs import Costs
from vtune.analysis.draws import SLOW_FROM, SlowShare
from vtune.analysis.twin import FEW, replay
from vtune.domain.record import Measurement, Tail, TrialRecord

# Slow batches are rare up to a tenth of all, and matter where they carry more than a tenth of the time.
RARE, MUCH_OF_THE_TIME = 0.10, 0.10
# With none in n batches, up to 3/n may be slow (95 %).
RULE_OF_THREE = 3.0
AS_SLOW_AS = 10.0


def slow_of(load_s: NDArray[np.float64], kind: NDArray[np.int_]) -> tuple[float, ...]:
    """Those that took several times the median of their kind, in medians."""
    return _slow(_in_medians(load_s, kind))


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
    known = _beside_their_size(costs) or together(earlier, costs)
    tail = Tail(batches=known.batches, slow=len(known.ratios), matters=_matters(known))
    if not known.ratios and measured.samples_per_s:
        share = min(1.0, RULE_OF_THREE / known.batches)
        tail = replace(tail, share_at_most=share)
        # Beside costs that recur one slow row more would break their pattern, and the two replays not compare.
        if len(costs.load_pattern) == 1:
            worst = replay(_with_some_slow(costs, share), replicates=FEW).rate / replay(costs, replicates=FEW).rate
            tail = replace(tail, samples_per_s_at_worst=measured.samples_per_s * min(1.0, worst))
    return replace(measured, tail=tail)


def _in_medians(values: NDArray[np.float64], kind: NDArray[np.int_]) -> NDArray[np.float64]:
    ratios = np.ones(len(values))
    for one in np.unique(kind):
        own = values[kind == one]
        if (middle := float(np.median(own))) > 0:
            ratios[kind == one] = own / middle
    return ratios


def _slow(ratios: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(round(float(one), 2) for one in np.sort(ratios) if one > SLOW_FROM)


def _beside_their_size(costs: Costs) -> SlowShare | None:
    """Where batches have different numbers of samples: a larger one is slow only if its samples are, and a smaller one
    only if it took long. None where all are of one size: then earlier trials tell as well."""
    samples = costs.load_samples
    if samples is None or not len(samples) or samples.min() == samples.max():
        return None
    whole = _in_medians(costs.load_s, costs.load_kind)
    by_sample = _in_medians(costs.load_s / samples, costs.load_kind)
    return SlowShare(batches=len(samples), ratios=_slow(np.minimum(whole, by_sample)))


def _matters(known: SlowShare) -> bool:
    """By the share of the time, in medians of an ordinary batch."""
    count, slow = len(known.ratios), sum(known.ratios)
    return 0 < count <= RARE * known.batches and slow > MUCH_OF_THE_TIME * (slow + known.batches - count)


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
