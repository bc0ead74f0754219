"""What each batch of a window took, on either side of the loader: the rows that the twin draws from."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vtune.analysis.period import every_nth
from vtune.analysis.roles import Roles
from vtune.analysis.window import StepWindow, samples_of
from vtune.analysis.worker_costs import LEAST_ROWS, Array, Batch, Kinds, alone, loads_by_batch, worker_side
from vtune.domain.events import BatchDelivered, BatchLoaded

# A main process that usually takes less than this share of its device's time runs ahead of it.
AHEAD = 0.8
# Times a usual step, its waiting included: the training stood still for something that nobody has told of.
LONG = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds, one row a batch. The workers' rows and the training's are of the same window, not side by side."""

    workers: int
    prefetch: int
    in_order: bool = True
    # Of the workers, those that still have something to give: a data set of one shard keeps one of four busy.
    delivering: int
    samples_per_batch: float

    # A worker's time from having the index to the finished batch; the part of it on a core.
    load_s: Array
    cpu_s: Array
    # From having nothing to do, with work ordered, to the start on it.
    dispatch_s: Array
    # Batches of a kind stand in for each other; the pattern is the order in which kinds come, over and over.
    load_kind: Kinds
    load_pattern: Kinds
    # The samples of each; None where nobody knows.
    load_samples: Array | None = None

    # From a batch's being there to asking for the next one.
    own_s: Array
    # The part of it spent waiting for other loaders.
    others_s: Array
    # From the later of its being finished and asked for to its being there. What the training waits for comes through
    # a pipe and wakes it; what lay ready was taken out of the pipe long ago.
    delivery_s: Array
    waited: NDArray[np.bool_]
    kind: Kinds
    pattern: Kinds
    # The part of it after which the next batch is asked for already: the training runs ahead of its device, and loading
    # goes on beside it. None where both are over at once.
    launch_s: Array | None = None
    # Of work that only every n-th step does, and what it adds to such a step.
    period_steps: int | None = None
    period_extra_s: float | None = None
    # Steps that took many times the usual, by their numbers.
    long_steps: tuple[int, ...] = ()

    @property
    def prefetch_by_delivering(self) -> int:
        """The queue is as deep as ever when some of the workers have ended: the others fill it."""
        return -(-self.workers * self.prefetch // self.delivering) if self.delivering else self.prefetch

    @property
    def mean_own_s(self) -> float:
        return self._mean(self.own_s)

    @property
    def mean_others_s(self) -> float:
        return self._mean(self.others_s)

    def _mean(self, values: Array) -> float:
        """Over whole periods, whatever part of one the window ended in."""
        by_kind = {one: float(values[self.kind == one].mean()) for one in np.unique(self.pattern)}
        return float(np.mean([by_kind[one] for one in self.pattern]))


def costs_of(
    roles: Roles,
    loaded: Sequence[BatchLoaded],
    regular: Sequence[StepWindow],
    *,
    device_s: Mapping[int, float] | None = None,
    apart: Sequence[tuple[float, float]] = (),
) -> Costs | None:
    """None where one side of the loader was not seen. `device_s`: the device's own time of a step, by its number.
    `apart`: when the training stood still for something else."""
    if not regular or not all(batch.main_thread for window in regular for batch in window.batches):
        return None
    training = _on_device(_training_rows(roles, regular, apart), device_s or {})
    if len(training) < LEAST_ROWS:
        return None
    by_batch = loads_by_batch(roles, loaded)
    if roles.workers:
        found = worker_side(roles, by_batch, begin_s=regular[0].started_s)
        if found is None:
            return None
        side = found
        delivery = [_delivery(row.batch, by_batch) for row in training]
        waited = [_was_waited_for(row.batch, by_batch) for row in training]
    else:
        side = alone(np.asarray([row.batch.returned_s - row.batch.asked_s for row in training]))
        delivery, waited = [0.0] * len(training), [True] * len(training)
    kinds = _kinds(training)
    return Costs(
        workers=roles.workers,
        prefetch=roles.prefetch,
        in_order=roles.settings.get("in_order") is not False,
        samples_per_batch=float(np.mean([samples_of(row.batch) for row in training])),
        delivering=side.delivering,
        load_s=side.load_s,
        cpu_s=side.cpu_s,
        dispatch_s=side.dispatch_s,
        load_kind=side.kind,
        load_pattern=side.pattern,
        load_samples=side.samples,
        own_s=np.asarray([row.own_s for row in training]),
        launch_s=np.asarray([row.launch_s for row in training]) if training[0].launch_s is not None else None,
        others_s=np.asarray([row.others_s for row in training]),
        delivery_s=np.asarray(_known(delivery)),
        waited=np.asarray(waited),
        kind=kinds.kind,
        pattern=kinds.pattern,
        period_steps=kinds.period_steps,
        period_extra_s=kinds.period_extra_s,
        long_steps=_long(training, regular),
    )


def _long(rows: Sequence[_Row], regular: Sequence[StepWindow]) -> tuple[int, ...]:
    usual = float(np.median([window.duration_s for window in regular]))
    return tuple(sorted({row.step for row in rows if row.own_s > LONG * usual}))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    batch: BatchDelivered
    own_s: float
    others_s: float
    # What the main process takes of that, where it runs ahead of its device.
    launch_s: float | None = None
    # Its step, its place in it, and how many batches that step took.
    step: int
    place: int
    of: int


def _training_rows(roles: Roles, regular: Sequence[StepWindow], apart: Sequence[tuple[float, float]]) -> list[_Row]:
    asked_next = {
        (before.pass_number, before.returned_s): after.asked_s
        for before, after in pairwise(roles.batches)
        if before.pass_number == after.pass_number
    }
    others = [other for other in roles.other_batches if other.main_thread]
    returned = [other.returned_s for other in others]
    rows = []
    for window in regular:
        for place, batch in enumerate(window.batches):
            ended_s = asked_next.get((batch.pass_number, batch.returned_s))
            if ended_s is None:
                continue  # the epoch's last batch, or the trial's
            if any(batch.returned_s < end and begin < ended_s for begin, end in apart):
                continue
            # After the step, too: a validation comes between its end and the next batch.
            first, end = bisect_right(returned, batch.returned_s), bisect_left(returned, ended_s)
            others_s = sum(other.returned_s - max(other.asked_s, batch.returned_s) for other in others[first:end])
            rows.append(
                _Row(
                    batch=batch,
                    own_s=ended_s - batch.returned_s,
                    others_s=others_s,
                    step=window.number,
                    place=place,
                    of=len(window.batches),
                )
            )
    return rows


def _on_device(rows: Sequence[_Row], device_s: Mapping[int, float]) -> list[_Row]:
    """A main process that runs ahead of its device is done with a step before the step is, and now and then waits for
    all of them at once. Its time is then the device's, with what it takes beyond that spread over all steps."""
    known = [row for row in rows if row.step in device_s]
    own_s: dict[int, float] = defaultdict(float)
    for row in known:
        own_s[row.step] += row.own_s
    if len(own_s) < LEAST_ROWS:
        return list(rows)
    if float(np.median([own_s[step] / device_s[step] for step in own_s if device_s[step] > 0])) > AHEAD:
        return list(rows)
    beyond = max(1.0, sum(own_s.values()) / sum(device_s[step] for step in own_s))

    def on_device(row: _Row) -> _Row:
        took_s = beyond * device_s[row.step] / row.of
        return replace(row, own_s=took_s, launch_s=min(row.own_s, took_s))

    return [on_device(row) for row in known]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kinds:
    kind: Kinds
    pattern: Kinds
    period_steps: int | None = None
    period_extra_s: float | None = None


def _kinds(rows: Sequence[_Row]) -> _Kinds:
    """By place in the step, where each takes as many batches; and apart, what only every n-th step does."""
    sizes = {row.of for row in rows}
    size = sizes.pop() if len(sizes) == 1 else 1
    places = np.asarray([row.place if size > 1 else 0 for row in rows])
    by_place = _Kinds(kind=places, pattern=np.arange(size))
    steps = np.asarray([row.step for row in rows])
    steps -= steps.min()
    own = np.bincount(steps, weights=[row.own_s for row in rows]).astype(np.float64)
    # Steps that are not among the rows (the end of an epoch) keep their place.
    own[own == 0] = np.median(own[own > 0]) if (own > 0).any() else 0.0
    found = every_nth(own)
    if found is None:
        return by_place
    period, phase = found
    kind = places + size * ((steps % period) == phase)
    pattern = np.concatenate([np.arange(size) + size * (step == phase) for step in range(period)])
    if set(np.unique(pattern)) - set(np.unique(kind)):
        return by_place
    extra = own[phase::period].mean() - np.delete(own, np.s_[phase::period]).mean()
    return _Kinds(kind=kind, pattern=pattern, period_steps=period, period_extra_s=float(extra))


def _delivery(batch: BatchDelivered, by_batch: Mapping[Batch, BatchLoaded]) -> float | None:
    load = by_batch.get((batch.pass_number, batch.index))
    return None if load is None else max(0.0, batch.returned_s - max(load.finished_s, batch.asked_s))


def _was_waited_for(batch: BatchDelivered, by_batch: Mapping[Batch, BatchLoaded]) -> bool:
    load = by_batch.get((batch.pass_number, batch.index))
    return load is not None and load.finished_s > batch.asked_s


def _known(values: Sequence[float | None]) -> list[float]:
    """A missing one is as large as the others usually are."""
    seen = [value for value in values if value is not None]
    usual = float(np.median(seen)) if seen else 0.0
    return [usual if value is None else value for value in values]
