"""What a run pays around its steps: its start, the beginning of each epoch, its end."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from vtune.analysis.cold_start import gained_s
from vtune.analysis.costs import Costs
from vtune.analysis.pauses import Stop, pauses_of
from vtune.analysis.roles import Roles
from vtune.analysis.window import StepWindow, epochs_are_short
from vtune.domain.events import BatchDelivered, BatchLoaded
from vtune.domain.record import Measurement, Pause


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """Seconds beyond what the samples take at the steady rate."""

    # From the start of the process until the steps are measured; None where the start is not known.
    once_s: float | None = None
    # Passes over the loader that began meanwhile: they are paid for.
    passes_begun: int = 1
    # At the beginning of each further one.
    restart_s: float = 0.0
    # In each epoch beside its passes.
    extra_s: float = 0.0
    # Where an epoch's end was seen: the same, and the part of it spent waiting for the new epoch's first batch.
    seen_restart_s: float | None = None
    seen_wait_s: float | None = None
    # And what came before that batch was asked for.
    seen_between_s: float | None = None
    # After the run's last step.
    at_end_s: float = 0.0
    pauses: tuple[Pause, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pace:
    """Of one batch, in the steady part."""

    workers: int
    # A worker's time for it (the training's own, without workers), and the training's.
    load_s: float
    own_s: float
    # From one to the next.
    period_s: float
    # Of the epoch, and of one pass over the loader; None where the length is not known.
    batches: int | None
    batches_per_pass: int | None
    costs: Costs | None
    # By how much each worker begins its first batch later than the first one.
    late_s: tuple[float, ...] = ()

    @property
    def starved_s(self) -> float:
        """By how much longer the workers take for a batch than the training."""
        return max(0.0, self.load_s / self.workers - self.own_s) if self.workers else 0.0

    def cold_start_s(self, first_s: float) -> float:
        """What an epoch's beginning costs whose first batch is there after `first_s`, with an empty queue."""
        if not self.workers:
            return max(0.0, first_s - self.load_s)
        known = [count for count in (self.batches, self.batches_per_pass) if count is not None]
        batches = min(known, default=None)
        gained = gained_s(self.costs, batches, self.late_s) if self.costs is not None else None
        if gained is None:
            # Without the costs of each batch: those of the last round come together, and all but one are for free.
            last_round = self.workers if batches is None else (batches - 1) % self.workers + 1
            gained = last_round * self.starved_s
        return max(0.0, first_s - gained)


def around_steps(
    measured: Measurement,
    roles: Roles,
    windows: Sequence[StepWindow],
    regular: Sequence[StepWindow],
    *,
    loaded: Sequence[BatchLoaded],
    stops: Sequence[Stop],
    started_s: float | None,
    samples_per_epoch: int | None,
    samples_per_pass: int | None,
    costs: Costs | None,
    every_steps: Mapping[Literal["checkpoint", "validation"], int] | None = None,
) -> Around:
    """`measured` has its rate and its costs; None of that is known without them. `samples_per_pass`: of all ranks."""
    pace = _pace(measured, roles, regular, loaded, samples_per_epoch, samples_per_pass, costs)
    if pace is None:
        return Around()
    begin_s = regular[0].started_s
    pauses = pauses_of(stops, windows, regular, every_steps)
    once_s = _once_s(pace, roles, loaded, begin_s, started_s) if started_s is not None else None
    if epochs_are_short(roles):
        return Around(once_s=once_s, pauses=pauses)
    boundaries = [window for window in windows if window.boundary]
    # What a run pays beside its rate and its restarts: a validation that was seen before the first step only, and
    # whatever came between the steps too seldom to be in the rate.
    steps = None if pace.batches is None else pace.batches * len(regular) / sum(len(w.batches) for w in regular)
    extra_s = sum(
        pause.seconds * _in_an_epoch(pause, steps)
        for pause in pauses
        if not pause.counted and pause.cut_after_batches is None
    )
    if not boundaries:
        restart_s = _unseen_restart_s(measured, roles, pace)
        return Around(once_s=once_s, restart_s=restart_s, extra_s=extra_s, pauses=pauses)
    on_device = measured.device_step_s is not None
    known = _Known.of(roles, regular)
    gaps = [_gap_s(window, known, pace, on_device=on_device) for window in boundaries]
    restart_s = pace.cold_start_s(fmean(gap for gap, _ in gaps))
    return Around(
        once_s=once_s,
        passes_begun=1 + sum(window.ended_s <= begin_s for window in boundaries),
        restart_s=restart_s,
        extra_s=extra_s,
        seen_restart_s=restart_s,
        seen_wait_s=min(restart_s, fmean(max(0.0, wait - pace.period_s + pace.own_s) for _, wait in gaps)),
        seen_between_s=fmean(max(0.0, gap - wait) for gap, wait in gaps),
        at_end_s=_at_end_s(stops, boundaries),
        pauses=pauses,
    )


def _in_an_epoch(pause: Pause, steps: float | None) -> int:
    return max(1, int(steps / pause.every_steps)) if steps is not None and pause.every_steps else 1


def _pace(
    measured: Measurement,
    roles: Roles,
    regular: Sequence[StepWindow],
    loaded: Sequence[BatchLoaded],
    samples_per_epoch: int | None,
    samples_per_pass: int | None,
    costs: Costs | None,
) -> _Pace | None:
    batches = [batch for window in regular for batch in window.batches]
    samples, rate = sum(window.samples for window in regular), measured.samples_per_s
    if not batches or not samples or rate is None or rate <= 0:
        return None
    by_batch = samples / len(batches) * roles.times
    period_s = by_batch / rate
    own_s = by_batch / measured.compute_samples_per_s if measured.compute_samples_per_s else period_s
    if measured.training_cost is not None:
        own_s = measured.training_cost.batch_s + (measured.training_cost.delivery_s or 0.0)
    load_s = sum(window.wait_s for window in regular) / len(batches)
    if roles.workers:
        cost = measured.worker_cost
        load_s = roles.workers * period_s if cost is None else cost.batch_s + (cost.dispatch_s or 0.0)
        if cost is None:
            own_s = max(own_s, period_s)  # nobody knows which of the two waits for the other
    return _Pace(
        workers=roles.workers,
        load_s=load_s,
        own_s=own_s,
        period_s=period_s,
        batches=None if samples_per_epoch is None else max(1, round(samples_per_epoch / by_batch)),
        batches_per_pass=None if samples_per_pass is None else max(1, round(samples_per_pass / by_batch)),
        costs=costs,
        late_s=_late_s(roles, loaded),
    )


def _late_s(roles: Roles, loaded: Sequence[BatchLoaded]) -> tuple[float, ...]:
    """In the mean over the epochs that started workers anew; those that stay are ready together from the second on."""
    if roles.settings.get("persistent_workers") or not roles.workers:
        return ()
    first: dict[int, tuple[int, float]] = {}
    for load in loaded:
        if load.pid not in first or load.started_s < first[load.pid][1]:
            first[load.pid] = load.worker, load.started_s
    seen = []
    for one in roles.passes:
        begun = dict(first[pid] for pid in one.worker_pids if pid in first)
        if len(begun) == roles.workers and 0 in begun:
            seen.append([max(0.0, begun[worker] - begun[0]) for worker in sorted(begun)])
    return tuple(fmean(worker) for worker in zip(*seen, strict=True)) if seen else ()


def _once_s(pace: _Pace, roles: Roles, loaded: Sequence[BatchLoaded], begin_s: float, started_s: float) -> float:
    """All until the first step that is measured, but for what its batches, and those that lie ready, are worth."""
    used = sum(batch.returned_s <= begin_s for batch in roles.batches)
    made = sum(load.finished_s <= begin_s for load in roles.own_loads(loaded))
    ready = min(max(0, made - used), roles.stock)
    return max(0.0, begin_s - started_s - used * pace.period_s - ready * pace.starved_s)


def _unseen_restart_s(measured: Measurement, roles: Roles, pace: _Pace) -> float:
    """Bounded by a fresh iterator's first batch; persistent workers only have to fill the queue again."""
    longest = max(Counter(batch.pass_number for batch in roles.batches).values(), default=0)
    # An epoch of so many iterations went by within one walk over the loader.
    goes_on = pace.batches is not None and longest > pace.batches
    if not pace.workers or goes_on:
        return 0.0
    if measured.effective_settings.get("persistent_workers"):
        delivery_s = (measured.training_cost.delivery_s or 0.0) if measured.training_cost is not None else 0.0
        return pace.cold_start_s(pace.load_s + delivery_s)
    return pace.cold_start_s(measured.first_batch_s or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """Made once for all ends of epochs, of which a long trial of short epochs has many."""

    batches: Sequence[BatchDelivered]
    returned_s: Sequence[float]
    # Of each pass, by its number.
    begun_s: Mapping[int, float | None]
    # A step in the mean, and from its first batch's coming to its end.
    step_s: float
    from_batch_s: float | None

    @classmethod
    def of(cls, roles: Roles, regular: Sequence[StepWindow]) -> _Known:
        from_batch = [window.ended_s - window.batches[0].returned_s for window in regular if window.batches]
        return cls(
            batches=roles.batches,
            returned_s=[batch.returned_s for batch in roles.batches],
            begun_s={one.number: one.begun_s for one in reversed(roles.passes)},
            step_s=fmean(window.duration_s for window in regular),
            from_batch_s=fmean(from_batch) if from_batch else None,
        )


def _gap_s(window: StepWindow, known: _Known, pace: _Pace, *, on_device: bool) -> tuple[float, float]:
    """From the last step of an epoch to the next one's first batch; and the part of it spent waiting for that."""
    place = bisect_right(known.returned_s, window.started_s)
    old = known.batches[place - 1].pass_number if place else None
    # Passes in between were walked without a step: part of the gap.
    new = [batch for batch in window.batches if batch.pass_number == window.batches[-1].pass_number != old]
    if not new or not new[0].main_thread:
        # It was fetched by somebody else, perhaps long before.
        return max(0.0, window.duration_s - known.step_s) + pace.load_s, 0.0
    first = new[0]
    begun = known.begun_s.get(first.pass_number)
    asked = first.asked_s if begun is None else min(begun, first.asked_s)
    # Batches of the old epoch after its last step: their gradients are dropped, or go into the next step.
    late = sum(batch.pass_number == old for batch in window.batches)
    gap_s = first.returned_s - window.started_s - late * pace.period_s
    if on_device and not pace.starved_s and known.from_batch_s is not None:
        # Work that an asynchronous device still has to do is waited for in the first step.
        gap_s += max(0.0, window.ended_s - first.returned_s - known.from_batch_s)
    return max(0.0, gap_s), first.returned_s - max(window.started_s, asked)


def _at_end_s(stops: Sequence[Stop], boundaries: Sequence[StepWindow]) -> float:
    """The last epoch, too, ends with a validation and a checkpoint, where the others do."""
    numbers = {window.number for window in boundaries}
    return sum(stop.seconds for stop in stops if stop.step in numbers) / len(boundaries)
