"""Why, by counterfactual: the replay once more with one thing changed. What would not help is not the bottleneck."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from vtune.analysis.costs import Costs
from vtune.analysis.twin import FEW, replay
from vtune.domain.effects import Scalar
from vtune.domain.record import Change, Measurement, WhatIf

# The bound is for the cores alone: more workers on full cores make each batch dearer.
LEAST_TREE_CORES = 0.05


def with_what_if(measured: Measurement, costs: Costs, cores: float | None) -> Measurement:
    """Rates relative to the same replay of the trial as it is, so that what both share cancels."""
    if measured.samples_per_s is None:
        return measured
    now = replay(costs, replicates=FEW).rate
    found = []
    for change, changed, setting in _changes(measured, costs):
        rate = measured.samples_per_s * _rate(changed, setting) / now
        if change == "twice_the_workers":
            rate = min(rate, max(measured.samples_per_s, _most_by_cores(measured, cores, costs.workers)))
        found.append(WhatIf(change=change, samples_per_s=rate, setting=setting))
    return replace(measured, what_if=tuple(found))


def _rate(costs: Costs, setting: tuple[str, Scalar] | None) -> float:
    match setting:
        case ("workers", int(workers)):
            return replay(costs, workers=workers, replicates=FEW).rate
        case ("prefetch_factor", int(prefetch)):
            return replay(costs, prefetch=prefetch, replicates=FEW).rate
        case ("in_order", bool(in_order)):
            return replay(costs, in_order=in_order, replicates=FEW).rate
        case _:
            return replay(costs, replicates=FEW).rate


def _changes(measured: Measurement, costs: Costs) -> Iterator[tuple[Change, Costs, tuple[str, Scalar] | None]]:
    yield "compute_free", replace(costs, own_s=np.zeros_like(costs.own_s), launch_s=None), None
    yield "data_free", _data_free(costs), None
    stored = _storage_free(measured, costs)
    if stored is not None:
        yield "storage_free", stored, None
    yield "twice_the_workers", costs, ("workers", max(1, 2 * costs.workers))
    if costs.workers:
        yield "twice_the_prefetch", costs, ("prefetch_factor", 2 * costs.prefetch)
    if costs.workers > 1 and costs.in_order:
        yield "order_not_kept", costs, ("in_order", False)


def _data_free(costs: Costs) -> Costs:
    nothing = np.zeros_like(costs.load_s)
    return replace(costs, load_s=nothing, dispatch_s=nothing, delivery_s=np.zeros_like(costs.delivery_s))


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
    free = max(used, cores - (measured.others_cores or 0.0))
    return measured.samples_per_s * free / used
