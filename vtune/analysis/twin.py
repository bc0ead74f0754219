"""The loader's twin: its schedule replayed with measured costs, for a rate that no stock of ready batches can flatter.

A slow first step fills the queue, and a short window then sees the queue and not the workers. The replay starts from
the costs instead, so it comes to what a long run would come to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vtune.analysis.compare import RUN_TO_RUN_SD, Z95
from vtune.analysis.costs import Costs
from vtune.analysis.draws import SlowShare, drawn
from vtune.analysis.schedule import step_ends

BATCHES = 2000
# Of them, the first are the virtual start: the queue fills and settles; the deepest is gone through several times.
SETTLING = 0.2
LEAST_QUEUES = 4
REPLICATES = 200
# Enough for a rate without an interval: what if.
FEW = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Batches a second of one rank."""

    rate: float
    # How far 95 % of the replicates reach down and up, as logarithms: rare slow batches make the sides unequal.
    below: float
    above: float

    @property
    def interval(self) -> tuple[float, float]:
        """95 %, and never narrower than two launches of the same thing differ."""
        below, above = (float(np.hypot(side, Z95 * RUN_TO_RUN_SD)) for side in (self.below, self.above))
        return self.rate * float(np.exp(-below)), self.rate * float(np.exp(above))


def replay(
    costs: Costs,
    *,
    workers: int | None = None,
    prefetch: int | None = None,
    in_order: bool | None = None,
    slow: SlowShare | None = None,
    batches: int = BATCHES,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Replay:
    """At the trial's own settings unless others are named."""
    if workers is None:
        workers = costs.delivering
        prefetch = costs.prefetch_by_delivering if prefetch is None else prefetch
    prefetch = max(1, costs.prefetch if prefetch is None else prefetch)
    in_order = costs.in_order if in_order is None else in_order
    # From a place in the pattern to the same one: whole periods before the end, and one of them at least.
    period = len(costs.pattern)
    batches = max(batches, int(LEAST_QUEUES * workers * prefetch / SETTLING), math.ceil(period / (1 - SETTLING)) + 1)
    busy, training = drawn(costs, (batches, replicates), np.random.default_rng(seed), slow)
    ends = step_ends(busy, training, workers=workers, prefetch=prefetch, in_order=in_order)
    count = int((1 - SETTLING) * batches) // period * period
    logs = np.log(count / (ends[-1] - ends[-1 - count]))
    middle = float(logs.mean())
    low, high = (float(q) for q in np.percentile(logs, [2.5, 97.5]))
    return Replay(rate=float(np.exp(middle)), below=max(0.0, middle - low), above=max(0.0, high - middle))
