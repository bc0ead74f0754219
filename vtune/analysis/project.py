"""From a steady rate to an epoch, the whole run, and what it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from vtune.domain.experiment import PlannedRun, Price
from vtune.domain.record import Measurement, Projection


def project(
    measured: Measurement,
    planned: PlannedRun,
    price: Price | None,
    *,
    samples_per_pass: int | None,
    batch_factor: float = 1.0,
) -> Measurement:
    """The whole run is that of the planned number of samples: epochs bounded by iterations see more of them by epoch
    when the batch is larger, and a setting must not look dear for that."""
    rate = measured.samples_per_s
    samples, bound_by = _samples_per_epoch(measured, planned, samples_per_pass)
    if rate is None or samples is None:
        return replace(measured, samples_per_epoch=samples, epoch_bound_by=bound_by)
    restart = _restart_s(measured)
    epoch_s = samples / rate + restart
    run_s, whole = None, None
    if planned.epochs:
        once = (measured.startup_s or 0.0) + (measured.first_batch_s or 0.0)
        total = planned.epochs * samples / (batch_factor if bound_by == "iterations" else 1.0)
        run_s = once + total / rate + max(0.0, total / samples - 1) * restart
        whole = total / run_s
    return replace(
        measured,
        samples_per_epoch=samples,
        epoch_bound_by=bound_by,
        samples_per_s_whole_run=whole,
        projected=Projection(
            epoch_s=epoch_s,
            run_s=run_s,
            cost=run_s / 3600 * price.per_hour if price and run_s is not None else None,
        ),
    )


def _samples_per_epoch(
    measured: Measurement, planned: PlannedRun, samples_per_pass: int | None
) -> tuple[int | None, Literal["data", "iterations"] | None]:
    if planned.samples_per_epoch:
        return planned.samples_per_epoch, "data"
    if planned.iterations_per_epoch and measured.effective_batch:
        return planned.iterations_per_epoch * measured.effective_batch, "iterations"
    if samples_per_pass:
        # Each rank walks over its own share.
        return samples_per_pass * measured.ranks, "data"
    return None, None


def _restart_s(measured: Measurement) -> float:
    """Measured where an epoch boundary fell into the window; else bounded by a fresh iterator's first batch."""
    if measured.restarts_in_rate:
        return 0.0
    if measured.epoch_restart_s is not None:
        return measured.epoch_restart_s
    if measured.effective_settings.get("persistent_workers"):
        return 0.0
    return measured.first_batch_s or 0.0
