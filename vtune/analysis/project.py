"""From a steady rate to an epoch, the whole run, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from vtune.analysis.around import around_steps
from vtune.analysis.costs import Costs
from vtune.analysis.pauses import Stop
from vtune.analysis.roles import Roles
from vtune.analysis.window import StepWindow, epochs_are_short
from vtune.domain.events import BatchLoaded
from vtune.domain.experiment import PlannedRun, Price
from vtune.domain.record import Measurement, Projection

BoundBy = Literal["data", "iterations"]


def project(
    measured: Measurement,
    planned: PlannedRun,
    price: Price | None,
    *,
    roles: Roles,
    windows: Sequence[StepWindow],
    regular: Sequence[StepWindow],
    loaded: Sequence[BatchLoaded],
    stops: Sequence[Stop],
    started_s: float | None,
    costs: Costs | None = None,
    batch_factor: float = 1.0,
) -> Measurement:
    """The whole run is that of the planned number of samples: epochs bounded by iterations see more of them by epoch
    when the batch is larger, and a setting must not look dear for that."""
    samples, bound_by = _samples_per_epoch(measured, planned, roles)
    around = around_steps(
        measured,
        roles,
        windows,
        regular,
        loaded=loaded,
        stops=stops,
        started_s=started_s,
        samples_per_epoch=samples,
        costs=costs,
    )
    measured = replace(
        measured,
        samples_per_epoch=samples,
        epoch_bound_by=bound_by,
        restarts_in_rate=epochs_are_short(roles),
        epoch_restart_s=around.seen_restart_s,
        epoch_restart_wait_s=around.seen_wait_s,
        between_epochs_s=around.seen_between_s,
        pauses=around.pauses,
    )
    rate = measured.samples_per_s
    if rate is None or samples is None:
        return measured
    run_s, whole = None, None
    if planned.epochs:
        once_s = around.once_s if around.once_s is not None else measured.first_batch_s or 0.0
        total = planned.epochs * samples / (batch_factor if bound_by == "iterations" else 1.0)
        # As many epochs as planned, whatever the batch: with a larger one their iterations are rescaled.
        restarts = max(0, planned.epochs - around.epochs_begun)
        run_s = once_s + total / rate + restarts * around.restart_s + around.at_end_s
        whole = total / run_s
    return replace(
        measured,
        samples_per_s_whole_run=whole,
        projected=Projection(
            epoch_s=samples / rate + around.restart_s,
            run_s=run_s,
            cost=run_s / 3600 * price.per_hour if price and run_s is not None else None,
        ),
    )


def _samples_per_epoch(measured: Measurement, planned: PlannedRun, roles: Roles) -> tuple[int | None, BoundBy | None]:
    if planned.samples_per_epoch:
        return planned.samples_per_epoch, "data"
    if planned.iterations_per_epoch and measured.samples_per_step:
        batch = measured.effective_batch or measured.samples_per_step
        return round(planned.iterations_per_epoch * batch), "iterations"
    by_pass = _samples_per_pass(roles)
    # Each rank walks over its own share.
    return (by_pass * len(roles.ranks), "data") if by_pass else (None, None)


def _samples_per_pass(roles: Roles) -> int | None:
    """Of one rank. Counted where a pass was seen whole, else by its sampler; the last one counts, for a script may
    train twice."""
    for one in reversed(roles.passes):
        if one.samples is not None:
            return one.samples
        if one.sampler_samples is not None:
            return one.sampler_samples
        size = one.settings.get("batch_size")
        if one.length and isinstance(size, int) and size > 0:
            return one.length * size
    return None
