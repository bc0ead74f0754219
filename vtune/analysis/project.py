"""From a steady rate to an epoch, the whole run, and what it costs."""

from __future__ import annotations

import math
from bisect import bisect_right
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

# Why nobody knows how long an epoch is.
SAYS_IT = "vtune.run.samples_per_epoch in an experiment file says it"
PARTS = f"each pass of its loader goes over other data, and how many of them make an epoch was not seen ({SAYS_IT})"
SEVERAL = f"several loaders feed its steps, and how many of their samples make an epoch is not known ({SAYS_IT})"
MORE_PASSES = f"its loader was gone through more often than the planned epochs ({SAYS_IT})"


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
    by_pass = _samples_per_pass(roles)
    # Each rank walks over its own share.
    by_pass = by_pass * len(roles.ranks) if by_pass else None
    parts = _why_no_epoch(roles, planned)
    samples, bound_by = _samples_per_epoch(measured, planned, by_pass if parts is None else None)
    around = around_steps(
        measured,
        roles,
        windows,
        regular,
        loaded=loaded,
        stops=stops,
        started_s=started_s,
        samples_per_epoch=samples,
        samples_per_pass=by_pass,
        costs=costs,
        every_steps=planned.every_steps,
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
    if rate is None:
        return measured
    if by_pass is not None and not roles.beside and (by_pass < samples if samples is not None else parts is not None):
        restart_s = 0.0 if measured.restarts_in_rate else around.restart_s
        measured = replace(measured, samples_per_part=by_pass, part_s=by_pass / rate + restart_s)
    if samples is None:
        unknown = {} if parts is None else {"samples_per_epoch": parts}
        return replace(measured, unknown={**measured.unknown, **unknown})
    # A loader that gives less than an epoch has to start again within it.
    passes = max(1.0, samples / by_pass) if by_pass and not roles.beside else 1.0
    run_s, whole = None, None
    if planned.epochs:
        once_s = around.once_s if around.once_s is not None else measured.first_batch_s or 0.0
        total = planned.epochs * samples / (batch_factor if bound_by == "iterations" else 1.0)
        # As many epochs as planned, whatever the batch: with a larger one their iterations are rescaled.
        restarts = max(0.0, planned.epochs * passes - around.passes_begun)
        extras = max(0, planned.epochs - math.ceil(around.passes_begun / passes)) + 1
        run_s = once_s + total / rate + restarts * around.restart_s + extras * around.extra_s + around.at_end_s
        whole = total / run_s
    return replace(
        measured,
        samples_per_s_whole_run=whole,
        projected=Projection(
            epoch_s=samples / rate + passes * around.restart_s + around.extra_s,
            run_s=run_s,
            epochs=planned.epochs,
            cost=run_s / 3600 * price.per_hour if price and run_s is not None else None,
        ),
    )


def _why_no_epoch(roles: Roles, planned: PlannedRun) -> str | None:
    """Why a pass over the loader is no epoch as far as anybody knows; None where it is taken for one."""
    if roles.beside:
        return SEVERAL
    if roles.goes_through_parts:
        return PARTS
    returned = [batch.returned_s for batch in roles.batches]
    led_to = (bisect_right(returned, step.ended_s) for step in roles.steps)
    trained_on = {roles.batches[place - 1].pass_number for place in led_to if place}
    # One more than planned may have been a look for a learning rate.
    return MORE_PASSES if planned.epochs and len(trained_on) > planned.epochs + 1 else None


def _samples_per_epoch(
    measured: Measurement, planned: PlannedRun, by_pass: int | None
) -> tuple[int | None, BoundBy | None]:
    if planned.samples_per_epoch:
        return planned.samples_per_epoch, "data"
    if planned.iterations_per_epoch and measured.samples_per_step:
        leaves_out = measured.consumed is not None and measured.consumed.leaves_out
        batch = (None if leaves_out else measured.effective_batch) or measured.samples_per_step
        return round(planned.iterations_per_epoch * batch), "iterations"
    return (by_pass, "data") if by_pass else (None, None)


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
