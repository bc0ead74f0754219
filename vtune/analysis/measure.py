"""From a trial's events to its numbers. Unknown stays None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from vtune.analysis.estimate import half_width, rate_with_interval
from vtune.analysis.project import project
from vtune.analysis.roles import Roles
from vtune.analysis.window import StepWindow, pass_facts, samples_of, step_windows, warm_up_steps
from vtune.domain.effects import Scalar
from vtune.domain.events import BatchDelivered, BatchLoaded, Fact, TelemetrySample
from vtune.domain.experiment import PlannedRun, Price
from vtune.domain.record import Measurement, StepTimes

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


def steps_measured(observed: Observed) -> int:
    """Steps after the warm-up, epoch boundaries apart: what the window counts."""
    if observed.roles is None:
        return 0
    windows = step_windows(observed.roles)
    return sum(not w.boundary for w in windows[warm_up_steps(windows, _stock(observed.roles, observed.facts)) :])


def measure(observed: Observed, planned: PlannedRun, price: Price | None) -> Measurement:
    empty = _with_memory(Measurement(startup_s=_startup_s(observed)), observed, None)
    roles = observed.roles
    if roles is None:
        return empty
    settings = _effective_settings(roles, observed.facts)
    windows = step_windows(roles)
    kept = windows[warm_up_steps(windows, _stock(roles, observed.facts)) :]
    regular = [window for window in kept if not window.boundary]
    boundaries = [window for window in windows if window.boundary]
    measured = _with_memory(
        replace(
            empty,
            first_batch_s=_first_batch_s(roles, observed.facts),
            effective_settings=settings,
            steps_measured=len(regular),
        ),
        observed,
        roles,
    )
    if not regular:
        return measured
    measured = _with_rates(measured, observed, roles, regular)
    step = median(w.duration_s for w in regular)
    restart = max(0.0, median(w.duration_s for w in boundaries) - step) if boundaries else None
    return project(replace(measured, epoch_restart_s=restart), planned, price, _batches_per_pass(roles, observed.facts))


def _with_rates(measured: Measurement, observed: Observed, roles: Roles, regular: Sequence[StepWindow]) -> Measurement:
    ranks = len(roles.ranks)
    durations = [w.duration_s for w in regular]
    counts = [w.samples * ranks for w in regular]
    total_s, samples = sum(durations), sum(counts)
    p10, p50, p90, p99 = (float(q) for q in np.percentile(durations, [10, 50, 90, 99]))
    measured = replace(
        measured, step_time_s=StepTimes(p10=p10, p50=p50, p90=p90, p99=p99, mean=total_s / len(durations))
    )
    if samples == 0 or total_s <= 0:
        return replace(measured, unsteady_because="no loader was seen to feed the steps")
    workers = measured.effective_settings.get("workers")
    group = workers if isinstance(workers, int) and workers > 0 else 1
    rate, interval = rate_with_interval(durations, counts, group)
    seen_from_main = all(batch.main_thread for w in regular for batch in w.batches)
    wait_s = sum(w.wait_s for w in regular) if seen_from_main else None
    busy_s = None if wait_s is None else total_s - wait_s
    loader_rate = _loader_rate(observed, roles, regular, wait_s, samples)
    because = _unsteady_because(observed, roles, regular, rate, interval, loader_rate)
    return replace(
        measured,
        samples_per_s=rate,
        samples_per_s_ci95=interval,
        steady=because is None,
        unsteady_because=because,
        data_wait_fraction=None if wait_s is None else wait_s / total_s,
        compute_samples_per_s=samples / busy_s if busy_s else None,
        loader_samples_per_s=loader_rate,
        # The mean: with two optimizers every other step of the primary one has no batch of its own.
        effective_batch=round(samples / len(counts)),
    )


def _unsteady_because(
    observed: Observed,
    roles: Roles,
    regular: Sequence[StepWindow],
    rate: float,
    interval: tuple[float, float] | None,
    loader_rate: float | None,
) -> str | None:
    if len(regular) < STEADY_STEPS:
        return f"only {len(regular)} steps were measured"
    width = half_width(rate, interval)
    if width is None or width > STEADY_HALF_WIDTH:
        return "the steps vary too much for this window"
    batches = [batch for w in regular for batch in w.batches]
    if batches and not all(batch.main_thread for batch in batches):
        return "the batches pass through a thread that vtune cannot see into"
    change = _stock_change(observed, roles, batches)
    if change is None or (loader_rate is None and change < 0):
        return "the loader's workers could not be seen"
    drained = -change > max(1.0, STEADY_STOCK_CHANGE * len(batches))
    if drained and loader_rate is not None and loader_rate < LOADER_MARGIN * rate:
        return f"the loader's queue drained by {-change} batches during the window: its stock hides its pace"
    return None


def _stock_change(observed: Observed, roles: Roles, batches: Sequence[BatchDelivered]) -> int | None:
    """Batches finished but not delivered, at the window's end against its beginning."""
    settings = _effective_settings(roles, observed.facts)
    if not settings.get("workers"):
        return 0
    ours = {pid for p in pass_facts(observed.facts, roles.pid).values() for pid in p.get("worker_pids", ())}
    finished = [b.finished_s for b in observed.loaded if b.pid in ours]
    if not batches or not finished:
        return None
    first, last = batches[0].returned_s, batches[-1].returned_s
    produced = sum(first < t <= last for t in finished)
    return produced - (len(batches) - 1)


def _loader_rate(
    observed: Observed, roles: Roles, regular: Sequence[StepWindow], wait_s: float | None, samples: int
) -> float | None:
    """What the loader could deliver to a training that computes nothing: its workers' busy time says."""
    settings = _effective_settings(roles, observed.facts)
    workers = settings.get("workers")
    if not workers:
        return samples / wait_s if wait_s else None
    ours = {pid for p in pass_facts(observed.facts, roles.pid).values() for pid in p.get("worker_pids", ())}
    begin, end = regular[0].started_s, regular[-1].ended_s
    seen = [b for b in observed.loaded if b.pid in ours and begin <= b.finished_s <= end]
    if not seen or not isinstance(workers, int):
        return None
    per_batch = [samples_of(b) for w in regular for b in w.batches]
    busy = sum(b.finished_s - b.started_s for b in seen) / len(seen)
    return len(roles.ranks) * workers * (sum(per_batch) / len(per_batch)) / busy if busy > 0 and per_batch else None


def _stock(roles: Roles, facts: Sequence[Fact]) -> int:
    """Batches that may lie ready before the first step ends."""
    settings = _effective_settings(roles, facts)
    workers, prefetch = settings.get("workers"), settings.get("prefetch_factor")
    return workers * prefetch if isinstance(workers, int) and isinstance(prefetch, int) else 0


def _effective_settings(roles: Roles, facts: Sequence[Fact]) -> Mapping[str, Scalar]:
    """What the training's loader really runs with, in the knobs' names."""
    if roles.train is None:
        return {}
    for fact in reversed(facts):
        if fact.name == "pass" and fact.pid == roles.pid and fact.data.get("loader") in roles.train.numbers:
            effective: Mapping[str, Any] = fact.data.get("effective") or {}
            named = {("workers" if name == "num_workers" else name): value for name, value in effective.items()}
            return {
                name: named[name]
                for name in ("workers", "prefetch_factor", "persistent_workers", "pin_memory", "batch_size")
                if name in named
            }
    return {}


def _batches_per_pass(roles: Roles, facts: Sequence[Fact]) -> int | None:
    if roles.train is None:
        return None
    lengths = [p.get("length") for p in pass_facts(facts, roles.pid).values() if p.get("loader") in roles.train.numbers]
    return next((int(n) for n in lengths if isinstance(n, int) and n > 0), None)


def _first_batch_s(roles: Roles, facts: Sequence[Fact]) -> float | None:
    """From asking for the first iterator to holding its first batch."""
    if not roles.batches:
        return None
    first = roles.batches[0]
    begun = pass_facts(facts, roles.pid).get(first.pass_number, {}).get("begun")
    return first.returned_s - (float(begun) if isinstance(begun, (int, float)) else first.asked_s)


def _startup_s(observed: Observed) -> float | None:
    """From the start of the process to the training's first request for a batch (or its first step)."""
    roles = observed.roles
    if roles is None or observed.started_s is None:
        return None
    first = roles.batches[0].asked_s if roles.batches else roles.steps[0].ended_s
    passes = pass_facts(observed.facts, roles.pid)
    if roles.batches:
        begun = passes.get(roles.batches[0].pass_number, {}).get("begun")
        first = min(first, float(begun)) if isinstance(begun, (int, float)) else first
    return max(0.0, first - observed.started_s)


def _with_memory(measured: Measurement, observed: Observed, roles: Roles | None) -> Measurement:
    samples = observed.telemetry
    ram = [s.ram_bytes for s in samples if s.ram_bytes is not None]
    shm = [s.shm_used_bytes for s in samples if s.shm_used_bytes is not None]
    others = [s.others_cores for s in samples if s.others_cores is not None]
    return replace(
        measured,
        ram_peak_bytes=max(ram, default=None),
        # The counter is the machine's: what stood there before the trial is not ours.
        shm_peak_bytes=max(shm) - shm[0] if shm else None,
        workers_rss_bytes=_workers_rss(observed, roles) if roles else (),
        others_cores=median(others) if others else None,
    )


def _workers_rss(observed: Observed, roles: Roles) -> tuple[int, ...]:
    """Peak by worker slot: workers that are restarted each epoch are still worker 0, worker 1 …"""
    if roles.train is None:
        return ()
    peaks: dict[int, int] = {}
    for sample in observed.telemetry:
        for process in sample.processes:
            peaks[process.pid] = max(peaks.get(process.pid, 0), process.rss_bytes)
    slots: dict[int, int] = {}
    for data in pass_facts(observed.facts, roles.pid).values():
        if data.get("loader") in roles.train.numbers:
            for slot, pid in enumerate(data.get("worker_pids") or ()):
                if pid in peaks:
                    slots[slot] = max(slots.get(slot, 0), peaks[pid])
    return tuple(slots[slot] for slot in sorted(slots))
