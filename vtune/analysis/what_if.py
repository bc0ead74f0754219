"""Why, by counterfactual: the replay once more with one thing changed. What would not help is not the bottleneck."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from vtune.analysis.costs import Costs
from vtune.analysis.draws import SlowShare
from vtune.analysis.twin import FEW, replay
from vtune.domain.effects import Scalar
from vtune.domain.record import Change, Measurement, WhatIf

# The bound is for the cores alone: more workers on full cores make each batch dearer.
LEAST_TREE_CORES = 0.05


def with_what_if(measured: Measurement, costs: Costs, slow: SlowShare | None, cores: float | None) -> Measurement:
    """Rates relative to the same replay of the trial as it is, so that what both share cancels. Both capacities are
    known already: they are what is left with the other side for free."""
    rate = measured.samples_per_s
    if rate is None:
        return measured
    capacities: dict[Change, float | None] = {
        "compute_free": measured.loader_samples_per_s,
        "data_free": measured.compute_samples_per_s,
    }
    found = [WhatIf(change=change, samples_per_s=most) for change, most in capacities.items() if most is not None]
    now = replay(costs, slow=slow, replicates=FEW).rate
    for change, changed, setting in _changes(measured, costs):
        predicted = rate * _rate(changed, setting, slow) / now
        if change == "twice_the_workers":
            predicted = min(predicted, max(rate, _most_by_cores(measured, cores, costs.workers)))
        found.append(WhatIf(change=change, samples_per_s=predicted, setting=setting))
    return replace(measured, what_if=tuple(found))


def _rate(costs: Costs, setting: tuple[str, Scalar] | None, slow: SlowShare | None) -> float:
    match setting:
        case ("workers", int(workers)):
            return replay(costs, workers=workers, slow=slow, replicates=FEW).rate
        case ("prefetch_factor", int(prefetch)):
            return replay(costs, prefetch=prefetch, slow=slow, replicates=FEW).rate
        case ("in_order", bool(in_order)):
            return replay(costs, in_order=in_order, slow=slow, replicates=FEW).rate
        case _:
            return replay(costs, slow=slow, replicates=FEW).rate


def _changes(measured: Measurement, costs: Costs) -> Iterator[tuple[Change, Costs, tuple[str, Scalar] | None]]:
    stored = _storage_free(measured, costs)
    if stored is not None:
        yield "storage_free", stored, None
    if costs.delivering == costs.workers:
        # Where some have come to their end, what more of them would get is for the data set to say.
        yield "twice_the_workers", costs, ("workers", max(1, 2 * costs.workers))
        if costs.workers:
            yield "twice_the_prefetch", costs, ("prefetch_factor", 2 * costs.prefetch)
    if costs.delivering > 1 and costs.in_order:
        yield "order_not_kept", costs, ("in_order", False)


def _storage_free(measured: Measurement, costs: Costs) -> Costs | None:
    """As if all were in the page cache: the workers' time off the cores and out of their queue, by the share of the
    bytes that came from the device. Nothing to say where nobody counted them."""
    cold = measured.cold_fraction
    if not cold or not costs.workers or not np.isfinite(costs.cpu_s).all():
        return None
    queued = [use.queued_fraction for use in measured.processes if use.role != "main"]
    waited = float(np.mean([share or 0.0 for share in queued])) if queued else 0.0
    off_core = np.maximum(0.0, costs.load_s * (1 - min(1.0, waited)) - costs.cpu_s)
    return replace(costs, load_s=costs.load_s - cold * off_core)


def _most_by_cores(measured: Measurement, cores: float | None, workers: int) -> float:
    """What the cores could carry at most, were all of them kept busy by this training as it is."""
    used = measured.tree_cores
    if cores is None or used is None or used < LEAST_TREE_CORES or measured.samples_per_s is None:
        return float("inf")
    if not workers:
        # Workers free the main process of what it does on one core now.
        return float("inf")
    # Neighbours do not keep a training from its share.
    free = max(used, cores - (measured.others_cores or 0.0), cores / 2)
    return measured.samples_per_s * free / used
