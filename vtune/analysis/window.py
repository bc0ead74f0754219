"""Which steps of a trial are measured: the start-up dropped, epoch boundaries kept apart."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np

from vtune.analysis.roles import Roles
from vtune.domain.events import BatchDelivered

# Of the steps with a beginning, the first still warms caches.
FIRST_STEPS = 1
# The start-up is over once two steps in a row take no more of their own (waiting for data apart) than this many times
# what all but a tenth of the later half take: slower first steps go, work that only every n-th step does stays.
SETTLED = 1.2
SETTLED_PERCENTILE = 90
# An epoch that lasts for less than so many fillings of the queue is mostly stock.
STOCKS_IN_A_SHORT_EPOCH = 4
LEAST_EPOCHS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWindow:
    """One optimizer step: from the end of the one before to its own end."""

    # Counted from the training's first step.
    number: int
    started_s: float
    ended_s: float
    batches: tuple[BatchDelivered, ...]
    # Of the other loaders that feed the steps, in the same time, and of those that do not.
    beside: tuple[BatchDelivered, ...] = ()
    other_batches: tuple[BatchDelivered, ...]
    # The iterator was restarted inside it: an epoch boundary (validation, checkpoint, new workers).
    boundary: bool

    @property
    def duration_s(self) -> float:
        return self.ended_s - self.started_s

    @property
    def samples(self) -> int:
        return sum(samples_of(batch) for batch in (*self.batches, *self.beside))

    @property
    def wait_s(self) -> float:
        """Main-thread time inside `next()` of the training's loaders that falls into this step."""
        return sum(self._within(batch) for batch in (*self.batches, *self.beside))

    @property
    def other_wait_s(self) -> float:
        return sum(self._within(batch) for batch in self.other_batches)

    @property
    def own_s(self) -> float:
        """Without any waiting for data."""
        return max(0.0, self.duration_s - self.wait_s - self.other_wait_s)

    def _within(self, batch: BatchDelivered) -> float:
        if not batch.main_thread:
            return 0.0
        return max(0.0, min(batch.returned_s, self.ended_s) - max(batch.asked_s, self.started_s))


def samples_of(batch: BatchDelivered) -> int:
    """The sampler's count where it is known: a crop-per-sample data set has a larger leading dimension."""
    return batch.samples or batch.leading


def epochs_are_short(roles: Roles) -> bool:
    """Epochs that are over before the loader's stock is used up have no steady part: the rate is that of whole epochs,
    restarts and all. `next(iter(loader))` in each step is the extreme of it."""
    by_pass = Counter(batch.pass_number for batch in roles.batches)
    ended = [by_pass[one.number] for one in roles.passes[:-1] if by_pass[one.number]]
    return len(ended) >= LEAST_EPOCHS and median(ended) <= max(2, STOCKS_IN_A_SHORT_EPOCH * roles.stock)


def step_windows(roles: Roles) -> list[StepWindow]:
    """All steps but the first, which has no beginning."""
    ends = [step.ended_s for step in roles.steps]
    by_window = _by_window(roles.batches, ends)
    beside = _by_window([batch for feeder in roles.beside for batch in feeder.batches], ends)
    others = _by_window(roles.other_batches, ends)
    starts_pass: set[int] = set()
    if not epochs_are_short(roles):
        begun = set[int]()
        for before, after in pairwise(roles.batches):
            begun.add(before.pass_number)
            # Iterators that are read in turns come back to a pass: that is no end of an epoch.
            if after.pass_number not in begun:
                starts_pass.add(bisect_right(ends, after.returned_s))
    return [
        StepWindow(
            number=n,
            started_s=ends[n - 1],
            ended_s=ends[n],
            batches=tuple(by_window.get(n, ())),
            beside=tuple(beside.get(n, ())),
            other_batches=tuple(others.get(n, ())),
            boundary=n in starts_pass,
        )
        for n in range(1, len(ends))
    ]


def start_up_steps(windows: Sequence[StepWindow]) -> int:
    """How many leading windows belong to the start-up: allocation, compilation, the search for the fastest kernels."""
    own = np.asarray([window.own_s for window in windows if not window.boundary])
    if len(own) <= FIRST_STEPS + 1:
        return FIRST_STEPS
    usual = SETTLED * float(np.percentile(own[len(own) // 2 :], SETTLED_PERCENTILE))
    numbers = [number for number, window in enumerate(windows) if not window.boundary]
    for at in range(FIRST_STEPS, len(own) - 1):
        if own[at] <= usual and own[at + 1] <= usual:
            return numbers[at]
    return len(windows)


def steps_of_stock(windows: Sequence[StepWindow], stock_batches: int, loaders: Collection[int]) -> int:
    """How many leading windows the batches fed that lay ready before the first step ended. `loaders`: whose they are,
    by number."""
    delivered = 0
    for number, window in enumerate(windows):
        if delivered >= stock_batches:
            return number
        delivered += sum(batch.loader in loaders for batch in (*window.batches, *window.beside))
    return len(windows)


def _by_window(batches: Sequence[BatchDelivered], ends: Sequence[float]) -> dict[int, list[BatchDelivered]]:
    found: dict[int, list[BatchDelivered]] = {}
    for batch in batches:
        found.setdefault(bisect_right(ends, batch.returned_s), []).append(batch)
    return found
