"""The rate of a long run, both capacities, and what the training waits for: docs/decisions/0006."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vtune.analysis.costs import Costs, costs_of
from vtune.analysis.courses import sampling_error
from vtune.analysis.doubts import with_doubts
from vtune.analysis.draws import SlowShare
from vtune.analysis.estimate import half_width, rate_with_interval
from vtune.analysis.roles import Roles
from vtune.analysis.tail import slow_of, together
from vtune.analysis.twin import FEW, REPLICATES, Replay, replay
from vtune.analysis.window import StepWindow, epochs_are_short
from vtune.domain.events import BatchLoaded, DeviceStepped
from vtune.domain.record import Measurement, StepTimes, TrainingCost, WorkerCost
from vtune.domain.steady import Contradicted, Doubt, Drained, FewBatches, FewSteps, LoaderUnseen, NoLoader, WideInterval

# Below this many steps a rate may be shown as provisional, but nobody can know whether it is the steady one.
STEADY_STEPS = 20
STEADY_HALF_WIDTH = 0.10
# Workers begin all at once and get in each other's way more than later on: the first rounds are not like the others.
ROUNDS_BY_WORKER = 2
# So many steps of a window are enough to contradict the replay, by more than this beyond both intervals: costs that go
# by worker or by file in a way that nobody thought of.
LEAST_TO_CHECK = 16
CONTRADICTS = 0.05
# A window that lived on the loader's stock: the queue shrank by more than this share of what was delivered …
STEADY_STOCK_CHANGE = 0.02
# … while the workers, never waiting for each other, could hardly have kept up with the rate.
LOADER_MARGIN = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    measured: Measurement
    # What the rate was replayed from; None where it could not be.
    costs: Costs | None = None
    # And what is known of slow batches beyond them.
    slow: SlowShare | None = None


def workers_are_seen(roles: Roles, loaded: Sequence[BatchLoaded]) -> bool:
    """Both sides of the loader are known, so its schedule can be replayed and its stock does not matter."""
    if roles.beside or epochs_are_short(roles) or not all(batch.main_thread for batch in roles.batches):
        return False  # a replay of one of several loaders would take the others' queues for endless
    return not roles.workers or bool(roles.own_loads(loaded))


def with_rates(
    measured: Measurement,
    roles: Roles,
    loaded: Sequence[BatchLoaded],
    regular: Sequence[StepWindow],
    *,
    device_steps: Sequence[DeviceStepped] = (),
    apart: Sequence[tuple[float, float]] = (),
    earlier: SlowShare | None = None,
    replicates: int = REPLICATES,
    both_capacities: bool = True,
) -> Rated:
    """`apart`: when the training stood still for something that is no part of its steps. `earlier`: what the study's
    other trials know of slow batches."""
    durations = [window.duration_s for window in regular]
    total_s, samples = sum(durations), sum(window.samples for window in regular) * roles.times
    p10, p50, p90, p99 = (float(q) for q in np.percentile(durations, [10, 50, 90, 99]))
    measured = replace(
        measured, step_time_s=StepTimes(p10=p10, p50=p50, p90=p90, p99=p99, mean=total_s / len(durations))
    )
    if samples == 0 or total_s <= 0:
        return Rated(measured=with_doubts(measured, NoLoader()))
    costs = None
    if workers_are_seen(roles, loaded):
        costs = costs_of(roles, loaded, regular, device_s=_device_s(device_steps, roles), apart=apart)
    if costs is None:
        return Rated(measured=_by_batch_means(measured, roles, loaded, regular))
    slow = together(earlier, costs) if costs.workers else None
    replayed = _by_replay(measured, roles, costs, slow, replicates)
    if (seen := _seen_instead(replayed, costs, roles, loaded, regular)) is not None:
        told = _by_batch_means(measured, roles, loaded, regular)
        contradicted = Contradicted(replayed=replayed.samples_per_s or 0.0, seen=seen)
        return Rated(measured=with_doubts(replace(told, doubts=()), contradicted, *told.doubts))
    measured = replayed
    if both_capacities:
        alone = costs.samples_per_batch * roles.times * _loader_alone(costs, slow).rate
        measured = replace(measured, loader_samples_per_s=alone)
    return Rated(measured=measured, costs=costs, slow=slow)


def _by_replay(
    measured: Measurement, roles: Roles, costs: Costs, slow: SlowShare | None, replicates: int
) -> Measurement:
    batch = costs.samples_per_batch * roles.times
    found = replay(costs, slow=slow, replicates=replicates)
    own_s, others_s = costs.mean_own_s, costs.mean_others_s
    waits = min(1.0, max(0.0, 1 - (own_s - others_s) * found.rate))
    # Blocks of neighbours are drawn only as long as a window has a few of them.
    wider = sampling_error(costs)
    found = replace(found, below=max(found.below, wider), above=max(found.above, wider))
    low, high = found.interval
    measured = replace(
        measured,
        samples_per_s=batch * found.rate,
        samples_per_s_ci95=(batch * low, batch * high),
        rate_from="twin",
        data_wait_fraction=waits,
        other_loaders_wait_fraction=min(waits, others_s * found.rate),
        compute_samples_per_s=batch / (own_s - others_s) if own_s > others_s else None,
        worker_cost=_worker_cost(costs) if roles.workers else None,
        training_cost=_training_cost(costs),
        fed_from_stock=False,
    )
    return with_doubts(measured, *_doubts_of_replay(measured, costs))


def _seen_instead(
    replayed: Measurement,
    costs: Costs,
    roles: Roles,
    loaded: Sequence[BatchLoaded],
    regular: Sequence[StepWindow],
) -> float | None:
    """The later half's own rate, where the replay cannot be right: ready batches flatter a window and never slow it
    down, so one that was slower, or that used none up, tells the truth within its interval."""
    later = regular[len(regular) // 2 :]
    if len(later) < LEAST_TO_CHECK or costs.launch_s is not None or replayed.samples_per_s is None:
        return None
    counts = [window.samples * roles.times for window in later]
    seen, interval = rate_with_interval([window.duration_s for window in later], counts, max(1, roles.workers))
    if interval is None or replayed.samples_per_s_ci95 is None or seen <= 0:
        return None
    gap = math.log(replayed.samples_per_s / seen)
    low, high = replayed.samples_per_s_ci95
    own = math.log(interval[1] / interval[0]) / 2
    sides = math.log(replayed.samples_per_s / low), math.log(high / replayed.samples_per_s)
    if gap > CONTRADICTS + math.hypot(own, sides[0]):
        return seen
    flattered = _drained(roles, loaded, later) != 0
    return seen if not flattered and -gap > CONTRADICTS + math.hypot(own, sides[1]) else None


def _loader_alone(costs: Costs, slow: SlowShare | None) -> Replay:
    """Compute for free: what the loader could deliver to a training that takes no time."""
    return replay(replace(costs, own_s=np.zeros_like(costs.own_s), launch_s=None), slow=slow, replicates=FEW)


def _doubts_of_replay(measured: Measurement, costs: Costs) -> list[Doubt]:
    if measured.steps_measured < STEADY_STEPS:
        return [FewSteps(steps=measured.steps_measured)]
    if costs.workers and len(costs.load_s) < ROUNDS_BY_WORKER * costs.workers:
        return [FewBatches(batches=len(costs.load_s), workers=costs.workers)]
    assert measured.samples_per_s is not None
    width = half_width(measured.samples_per_s, measured.samples_per_s_ci95)
    return [WideInterval(half_width=width, of="batches")] if width is None or width > STEADY_HALF_WIDTH else []


def _worker_cost(costs: Costs) -> WorkerCost:
    wall, mean = float(costs.load_s.sum()), float(costs.load_s.mean())
    return WorkerCost(
        batch_s=mean,
        cpu_fraction=min(1.0, float(costs.cpu_s.sum()) / wall) if wall > 0 else None,
        batches=len(costs.load_s),
        delivering=costs.delivering,
        median_s=float(np.median(costs.load_s)),
        cv=float(costs.load_s.std(ddof=1)) / mean if mean > 0 and len(costs.load_s) > 1 else None,
        slow=slow_of(costs.load_s, costs.load_kind),
        dispatch_s=float(costs.dispatch_s.mean()),
    )


def _training_cost(costs: Costs) -> TrainingCost:
    own_s = costs.mean_own_s
    return TrainingCost(
        batch_s=own_s,
        cv=float(costs.own_s.std(ddof=1)) / own_s if own_s > 0 and len(costs.own_s) > 1 else None,
        delivery_s=float(costs.delivery_s.mean()) if costs.workers else None,
        period_steps=costs.period_steps,
        period_extra_s=costs.period_extra_s,
        long_steps=costs.long_steps,
    )


def _by_batch_means(
    measured: Measurement, roles: Roles, loaded: Sequence[BatchLoaded], regular: Sequence[StepWindow]
) -> Measurement:
    """Only the training's side was seen, several loaders feed it, or the epochs have no steady part: the window as it
    is, stock dropped."""
    counts = [window.samples * roles.times for window in regular]
    durations = [window.duration_s for window in regular]
    total_s, samples = sum(durations), sum(counts)
    mean, interval = rate_with_interval(durations, counts, max(1, roles.workers) * len(roles.feeders))
    fed = [batch for window in regular for batch in (*window.batches, *window.beside)]
    seen_from_main = all(batch.main_thread for batch in fed)
    own_wait_s, other_wait_s = sum(w.wait_s for w in regular), sum(w.other_wait_s for w in regular)
    wait_s = own_wait_s + other_wait_s if seen_from_main else None
    busy_s = None if wait_s is None else max(0.0, total_s - wait_s)
    worker = _seen_cost(roles, loaded, regular) if not roles.beside else None
    loader_rate: float | None = None
    if roles.beside:
        loader_rate = None  # each of them has one of its own
    elif worker is not None:
        loader_rate = roles.workers * samples / len(fed) / worker.batch_s
    elif seen_from_main and own_wait_s and not roles.workers:
        loader_rate = samples / own_wait_s
    drained = _drained(roles, loaded, regular)
    measured = replace(
        measured,
        samples_per_s=mean,
        samples_per_s_ci95=interval,
        rate_from="epochs" if epochs_are_short(roles) else "batch_means",
        data_wait_fraction=None if wait_s is None else min(1.0, wait_s / total_s),
        other_loaders_wait_fraction=None if wait_s is None else min(1.0, other_wait_s / total_s),
        compute_samples_per_s=samples / busy_s if busy_s else None,
        loader_samples_per_s=loader_rate,
        worker_cost=worker,
        fed_from_stock=bool(drained) and loader_rate is not None and loader_rate < LOADER_MARGIN * mean,
    )
    return with_doubts(measured, *_doubts_of_means(measured, roles, drained, seen_from_main))


def _doubts_of_means(measured: Measurement, roles: Roles, drained: int | None, seen_from_main: bool) -> list[Doubt]:
    if measured.steps_measured < STEADY_STEPS:
        return [FewSteps(steps=measured.steps_measured)]
    if measured.fed_from_stock or (drained and roles.beside):
        return [Drained(batches=drained or 0)]
    assert measured.samples_per_s is not None
    width = half_width(measured.samples_per_s, measured.samples_per_s_ci95)
    if width is None or width > STEADY_HALF_WIDTH:
        return [WideInterval(half_width=width, of="steps")]
    if not seen_from_main:
        return [LoaderUnseen(behind="thread")]
    if drained is None or (roles.workers and not roles.beside and measured.loader_samples_per_s is None):
        return [LoaderUnseen(behind="workers")]
    return []


def _drained(roles: Roles, loaded: Sequence[BatchLoaded], regular: Sequence[StepWindow]) -> int | None:
    """By how many batches the loader's queue shrank, when that is enough to hide its pace; None when nobody knows.

    Each pass has a queue of its own, so each is looked at alone, from its first batch in the window to its last.
    """
    queued = (one for feeder in roles.feeders for one in feeder.passes if one.settings.get("workers"))
    pids = {one.number: set(one.worker_pids) for one in queued}
    if not pids:
        return 0
    ours = set().union(*pids.values())
    loads = [load for load in loaded if load.pid in ours]
    by_pass: dict[int, list[float]] = {}
    for window in regular:
        for batch in (*window.batches, *window.beside):
            if batch.pass_number in pids:
                by_pass.setdefault(batch.pass_number, []).append(batch.returned_s)
    if not loads or not by_pass:
        return None
    finished: dict[int, list[float]] = {}
    for load in sorted(loads, key=lambda load: load.finished_s):
        finished.setdefault(load.pid, []).append(load.finished_s)
    drained = delivered = 0
    for number, times in by_pass.items():
        produced = sum(
            bisect_right(own, times[-1]) - bisect_right(own, times[0])
            for own in (finished.get(pid, ()) for pid in pids.get(number, ()))
        )
        drained += max(0, len(times) - 1 - produced)
        delivered += len(times)
    return drained if drained > max(1.0, STEADY_STOCK_CHANGE * delivered) else 0


def _seen_cost(roles: Roles, loaded: Sequence[BatchLoaded], regular: Sequence[StepWindow]) -> WorkerCost | None:
    """Of the batches finished in the window; where the stock outlasted it, of all but each worker's first."""
    loads = roles.own_loads(loaded)
    begin, end = regular[0].started_s, regular[-1].ended_s
    seen = [load for load in loads if begin <= load.finished_s <= end]
    if not seen:
        # The first batch of each worker pays imports and file handles.
        first = {load.pid: load.started_s for load in sorted(loads, key=lambda load: -load.started_s)}
        seen = [load for load in loads if load.started_s > first[load.pid]]
    wall = sum(load.finished_s - load.started_s for load in seen)
    if not seen or wall <= 0:
        return None
    return WorkerCost(
        batch_s=wall / len(seen), cpu_fraction=min(1.0, sum(load.cpu_s for load in seen) / wall), batches=len(seen)
    )


def _device_s(device_steps: Sequence[DeviceStepped], roles: Roles) -> Mapping[int, float]:
    """The device's own time of a step, by the step's place among all."""
    places = {step.number: place for place, step in enumerate(roles.steps)}
    own = (step for step in device_steps if step.pid == roles.pid and step.optimizer == roles.optimizer)
    return {places[step.number]: step.busy_s for step in own if step.number in places}
