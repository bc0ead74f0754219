"""From a trial's events to its numbers. Unknown stays None."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from vtune.analysis.device import with_device
from vtune.analysis.estimate import half_width, rate_with_interval
from vtune.analysis.gpus import with_gpus
from vtune.analysis.memory import with_memory
from vtune.analysis.project import project
from vtune.analysis.roles import Roles
from vtune.analysis.storage import with_storage
from vtune.analysis.window import StepWindow, epochs_are_short, step_windows, warm_up_steps
from vtune.domain.events import BatchDelivered, BatchLoaded, DeviceStepped, Fact, StageEnded, TelemetrySample
from vtune.domain.experiment import PlannedRun, Price
from vtune.domain.machine import Gpu
from vtune.domain.record import Measurement, StepTimes, WorkerCost

# Below this many steps a rate may be shown as provisional, but nobody can know whether it is the steady one.
STEADY_STEPS = 20
# A window that lived on the loader's stock: the queue shrank by more than this share of what was delivered …
STEADY_STOCK_CHANGE = 0.02
# … while the workers, never waiting for each other, could hardly have kept up with the rate.
LOADER_MARGIN = 1.1
STEADY_HALF_WIDTH = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What `measure` looks at; the lists may still be growing."""

    roles: Roles | None
    loaded: Sequence[BatchLoaded]
    delivered: Sequence[BatchDelivered]
    facts: Sequence[Fact]
    telemetry: Sequence[TelemetrySample]
    started_s: float | None
    device_steps: Sequence[DeviceStepped] = ()
    stages: Sequence[StageEnded] = ()
    gpus: Sequence[Gpu] = ()


def steps_measured(roles: Roles | None) -> int:
    """Steps after the warm-up, epoch boundaries apart: what the window counts."""
    return 0 if roles is None else len(_regular(step_windows(roles), roles))


def measure(observed: Observed, planned: PlannedRun, price: Price | None, *, batch_factor: float = 1.0) -> Measurement:
    """`batch_factor`: the trial's effective batch over that of the run as it is planned."""
    roles = observed.roles
    windows = step_windows(roles) if roles is not None else []
    regular = _regular(windows, roles) if roles is not None else []
    measured = with_memory(Measurement(startup_s=_startup_s(observed)), observed.telemetry, roles)
    measured = with_gpus(
        measured,
        telemetry=observed.telemetry,
        gpus=observed.gpus,
        facts=observed.facts,
        spans=[(window.started_s, window.ended_s) for window in regular],
    )
    measured = with_device(
        measured,
        device_steps=observed.device_steps,
        stages=observed.stages,
        facts=observed.facts,
        roles=roles,
        regular=regular,
    )
    if roles is None:
        return measured
    boundaries = [window for window in windows if window.boundary]
    measured = replace(
        measured,
        first_batch_s=_first_batch_s(roles),
        effective_settings=roles.settings,
        steps_measured=len(regular),
        ranks=len(roles.ranks),
    )
    if not regular:
        return measured
    measured = _with_rates(measured, observed, roles, regular)
    measured = with_storage(measured, observed.telemetry, observed.loaded, roles, regular)
    if epochs_are_short(roles):
        measured = replace(measured, restarts_in_rate=True)
    elif boundaries:
        step, wait = median(w.duration_s for w in regular), median(w.wait_s for w in regular)
        measured = replace(
            measured,
            epoch_restart_s=max(0.0, median(w.duration_s for w in boundaries) - step),
            epoch_restart_wait_s=max(0.0, median(w.wait_s for w in boundaries) - wait),
        )
    return project(measured, planned, price, samples_per_pass=_samples_per_pass(roles), batch_factor=batch_factor)


def _samples_per_pass(roles: Roles) -> int | None:
    """Of one rank. Counted where a pass was seen whole; the last one counts, for a script may train twice."""
    for one in reversed(roles.passes):
        if one.samples is not None:
            return one.samples
        size = one.settings.get("batch_size")
        if one.length and isinstance(size, int) and size > 0:
            return one.length * size
    return None


def _regular(windows: Sequence[StepWindow], roles: Roles) -> list[StepWindow]:
    return [window for window in windows[warm_up_steps(windows, roles.stock) :] if not window.boundary]


def _with_rates(measured: Measurement, observed: Observed, roles: Roles, regular: Sequence[StepWindow]) -> Measurement:
    durations = [w.duration_s for w in regular]
    counts = [w.samples * len(roles.ranks) for w in regular]
    total_s, samples = sum(durations), sum(counts)
    p10, p50, p90, p99 = (float(q) for q in np.percentile(durations, [10, 50, 90, 99]))
    measured = replace(
        measured, step_time_s=StepTimes(p10=p10, p50=p50, p90=p90, p99=p99, mean=total_s / len(durations))
    )
    if samples == 0 or total_s <= 0:
        return replace(measured, unsteady_because="no loader was seen to feed the steps")
    rate, interval = rate_with_interval(durations, counts, max(1, roles.workers))
    seen_from_main = all(batch.main_thread for w in regular for batch in w.batches)
    other_wait_s = sum(w.other_wait_s for w in regular)
    own_wait_s = sum(w.wait_s for w in regular)
    wait_s = own_wait_s + other_wait_s if seen_from_main else None
    busy_s = None if wait_s is None else max(0.0, total_s - wait_s)
    worker = _worker_cost(observed, roles, regular)
    per_batch = samples / len(roles.ranks) / sum(len(w.batches) for w in regular)
    loader_rate: float | None = None
    if worker is not None:
        loader_rate = len(roles.ranks) * roles.workers * per_batch / worker.batch_s
    elif seen_from_main and own_wait_s and not roles.workers:
        loader_rate = samples / own_wait_s
    drained = _drained(observed, roles, regular)
    measured = replace(
        measured,
        samples_per_s=rate,
        samples_per_s_ci95=interval,
        data_wait_fraction=None if wait_s is None else min(1.0, wait_s / total_s),
        other_loaders_wait_fraction=None if wait_s is None else min(1.0, other_wait_s / total_s),
        compute_samples_per_s=samples / busy_s if busy_s else None,
        loader_samples_per_s=loader_rate,
        worker_cost=worker,
        # The mean: with two optimizers every other step of the primary one has no batch of its own.
        effective_batch=round(samples / len(counts)),
        fed_from_stock=bool(drained) and loader_rate is not None and loader_rate < LOADER_MARGIN * rate,
    )
    because = _unsteady_because(measured, roles, drained, seen_from_main)
    return replace(measured, steady=because is None, unsteady_because=because)


def _unsteady_because(measured: Measurement, roles: Roles, drained: int | None, seen_from_main: bool) -> str | None:
    if measured.steps_measured < STEADY_STEPS:
        return f"only {measured.steps_measured} steps were measured"
    if measured.fed_from_stock:
        return f"the loader's queue drained by {drained} batches during the window: its stock hides its pace"
    assert measured.samples_per_s is not None
    width = half_width(measured.samples_per_s, measured.samples_per_s_ci95)
    if width is None or width > STEADY_HALF_WIDTH:
        return "the steps vary too much for this window"
    if not seen_from_main:
        return "the batches pass through a thread that vtune cannot see into"
    if roles.workers and (drained is None or measured.loader_samples_per_s is None):
        return "the loader's workers could not be seen"
    return None


def _drained(observed: Observed, roles: Roles, regular: Sequence[StepWindow]) -> int | None:
    """By how many batches the loader's queue shrank, when that is enough to hide its pace; None when nobody knows.

    Each pass has a queue of its own, so each is looked at alone, from its first batch in the window to its last.
    """
    if not roles.workers:
        return 0
    pids = {one.number: set(one.worker_pids) for one in roles.passes}
    loads = roles.own_loads(observed.loaded)
    by_pass: dict[int, list[float]] = {}
    for window in regular:
        for batch in window.batches:
            by_pass.setdefault(batch.pass_number, []).append(batch.returned_s)
    if not loads or not by_pass:
        return None
    drained = delivered = 0
    for number, times in by_pass.items():
        own = pids.get(number, set())
        produced = sum(b.pid in own and times[0] < b.finished_s <= times[-1] for b in loads)
        drained += max(0, len(times) - 1 - produced)
        delivered += len(times)
    return drained if drained > max(1.0, STEADY_STOCK_CHANGE * delivered) else 0


def _worker_cost(observed: Observed, roles: Roles, regular: Sequence[StepWindow]) -> WorkerCost | None:
    """Of the batches finished in the window; where the stock outlasted it, of all but each worker's first."""
    loads = roles.own_loads(observed.loaded)
    begin, end = regular[0].started_s, regular[-1].ended_s
    seen = [b for b in loads if begin <= b.finished_s <= end]
    if not seen:
        # The first batch of each worker pays imports and file handles.
        first = {b.pid: b.started_s for b in sorted(loads, key=lambda b: -b.started_s)}
        seen = [b for b in loads if b.started_s > first[b.pid]]
    wall = sum(b.finished_s - b.started_s for b in seen)
    if not seen or wall <= 0:
        return None
    return WorkerCost(batch_s=wall / len(seen), cpu_fraction=min(1.0, sum(b.cpu_s for b in seen) / wall))


def _first_batch_s(roles: Roles) -> float | None:
    """From asking for the first iterator to holding its first batch."""
    if not roles.batches:
        return None
    first = roles.batches[0]
    begun = next((p.begun_s for p in roles.passes if p.number == first.pass_number), None)
    return first.returned_s - (first.asked_s if begun is None else begun)


def _startup_s(observed: Observed) -> float | None:
    """From the start of the process to the training's first request for a batch (or its first step)."""
    roles = observed.roles
    if roles is None or observed.started_s is None:
        return None
    first = roles.batches[0].asked_s if roles.batches else roles.steps[0].ended_s
    begun = [one.begun_s for one in roles.passes if one.begun_s is not None]
    return max(0.0, min([first, *begun]) - observed.started_s)
