"""What each sample costs, in the order in which the loader asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from vtune.execution.engines.simulated.surface import SampleCost, Unmodelled, Unsteady

# Drawn at once, whatever the batch size: the same samples cost the same in batches of any size.
BLOCK = 4096
Floats = NDArray[np.float64]


class Samples:
    def __init__(
        self,
        cost: SampleCost,
        cached_fraction: float,
        rng: np.random.Generator,
        unmodelled: Unmodelled | None,
        unsteady: Unsteady,
        by_epoch: int | None,
    ) -> None:
        self._cost, self._cached, self._rng, self._unmodelled = cost, cached_fraction, rng, unmodelled
        self._unsteady, self._by_epoch = unsteady, by_epoch
        self._drawn = 0
        self._stretch = 0.0
        self._left: Floats = np.zeros((0, 3))
        self._sums: list[list[float]] = [[0.0, 0.0, 0.0]]
        self._at = 0

    def take(self, count: int) -> tuple[float, float, float]:
        """Of the next so many samples together: seconds of a core, seconds of latency, bytes to be read."""
        if self._at + count >= len(self._sums):
            self._draw_for(count)
        before, after = self._sums[self._at], self._sums[self._at + count]
        self._at += count
        return after[0] - before[0], after[1] - before[1], after[2] - before[2]

    def _draw_for(self, count: int) -> None:
        blocks = [self._left[self._at :]]
        while sum(len(block) for block in blocks) < count:
            blocks.append(self._block())
        self._left = np.concatenate(blocks)
        self._sums = np.vstack((np.zeros((1, 3)), np.cumsum(self._left, axis=0))).tolist()
        self._at = 0

    def _block(self) -> Floats:
        cost, rng = self._cost, self._rng
        factor = spread(rng, cost.cv, cost.law, BLOCK)
        waiting = spread(rng, cost.cv, cost.law, BLOCK)
        slow = rng.random(BLOCK) < cost.slow_fraction
        cached = rng.random(BLOCK) < self._cached
        stretch = self._stretches()
        hold_up = np.where(slow, cost.slow_factor, 1.0) * stretch * self._unsteadily()
        return np.column_stack(
            (
                cost.cpu_s * factor * hold_up,
                np.where(cached, 0.0, cost.latency_s * waiting * hold_up),
                np.where(cached, 0.0, cost.read_bytes),
            )
        )

    def _unsteadily(self) -> Floats:
        """By the place of each sample in the run, and by its index in the data set."""
        one = self._unsteady
        place = self._drawn + np.arange(BLOCK)
        self._drawn += BLOCK
        index, epoch = place, np.zeros(BLOCK)
        if self._by_epoch is not None:
            epoch, index = np.divmod(place, self._by_epoch)
            if one.order == "shuffled":
                index = self._rng.integers(self._by_epoch, size=BLOCK) if one.grows or one.stretch_every else index
        factor = np.ones(BLOCK)
        if one.credit_samples is not None:
            factor[place >= one.credit_samples] *= one.credit_factor
        if one.grows and self._by_epoch is not None:
            factor *= 1 + one.grows * index / self._by_epoch
        if one.stretch_every is not None:
            # The slow ones come last of each stretch of the data.
            factor[index % one.stretch_every >= one.stretch_every - one.stretch_samples] *= one.stretch_factor
        if one.kept_factor is not None:
            factor[epoch > 0] *= one.kept_factor
        return factor

    def _stretches(self) -> Floats:
        if self._unmodelled is None or self._unmodelled.stretch_sd <= 0:
            return np.ones(BLOCK)
        length = max(1, self._unmodelled.stretch_samples)
        knots = np.concatenate(([self._stretch], self._rng.standard_normal(-(-BLOCK // length))))
        self._stretch = float(knots[-1])
        at = np.interp(np.arange(BLOCK), np.linspace(0, BLOCK, len(knots)), knots)
        return np.exp(self._unmodelled.stretch_sd * at)


def spread(rng: np.random.Generator, cv: float, law: str, count: int) -> Floats:
    """Factors of mean 1."""
    if cv <= 0:
        return np.ones(count)
    if law == "lognormal":
        sd = float(np.sqrt(np.log1p(cv**2)))
        return rng.lognormal(-(sd**2) / 2, sd, count)
    return rng.gamma(cv**-2, cv**2, count)


def factors(rng: np.random.Generator, cv: float, law: str = "gamma") -> Iterator[float]:
    """Without an end."""
    draw: Callable[[], Floats] = lambda: spread(rng, cv, law, 256)  # noqa: E731
    while True:
        yield from draw().tolist()
