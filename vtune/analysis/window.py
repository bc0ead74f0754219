"""Which steps of a trial are measured: start-up and the loader's stock dropped, epoch boundaries kept apart."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from vtune.analysis.roles import Roles
from vtune.domain.events import BatchDelivered

# The first step allocates, compiles and waits for the first batch; the second still warms caches.
FIRST_STEPS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWindow:
    """One optimizer step: from the end of the one before to its own end."""

    started_s: float
    ended_s: float
    batches: tuple[BatchDelivered, ...]
    # The iterator was restarted inside it: an epoch boundary (validation, checkpoint, new workers).
    boundary: bool

    @property
    def duration_s(self) -> float:
        return self.ended_s - self.started_s

    @property
    def samples(self) -> int:
        return sum(samples_of(batch) for batch in self.batches)

    @property
    def wait_s(self) -> float:
        """Main-thread time inside `next()` that falls into this step."""
        return sum(
            max(0.0, min(b.returned_s, self.ended_s) - max(b.asked_s, self.started_s))
            for b in self.batches
            if b.main_thread
        )


def samples_of(batch: BatchDelivered) -> int:
    """The sampler's count where it is known: a crop-per-sample data set has a larger leading dimension."""
    return batch.samples or batch.leading


def step_windows(roles: Roles) -> list[StepWindow]:
    """All steps but the first, which has no beginning.

    Where epochs of one batch (or `next(iter(loader))` in each step) make every other step a boundary, none is apart.
    """
    ends = [step.ended_s for step in roles.steps]
    by_window: dict[int, list[BatchDelivered]] = {}
    starts_pass: set[int] = set()
    seen_pass: int | None = None
    for batch in roles.batches:
        number = bisect_right(ends, batch.returned_s)
        by_window.setdefault(number, []).append(batch)
        if seen_pass is not None and batch.pass_number != seen_pass:
            starts_pass.add(number)
        seen_pass = batch.pass_number
    if 2 * len(starts_pass) > len(ends):
        starts_pass.clear()
    return [
        StepWindow(
            started_s=ends[n - 1],
            ended_s=ends[n],
            batches=tuple(by_window.get(n, ())),
            boundary=n in starts_pass,
        )
        for n in range(1, len(ends))
    ]


def warm_up_steps(windows: Sequence[StepWindow], stock_batches: int) -> int:
    """How many leading windows are not measured: the first steps, and the batches that lay ready before them."""
    delivered = 0
    for number, window in enumerate(windows):
        if number >= FIRST_STEPS - 1 and delivered >= stock_batches:
            return number
        delivered += len(window.batches)
    return len(windows)
