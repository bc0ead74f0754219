"""What an epoch gains or loses because its queue begins empty: two replays of the same batches, cold and warm."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vtune.analysis.costs import Costs

Array = NDArray[np.float64]

REPLICATES = 40
# By then a queue is as it will be; a longer epoch only adds steady batches.
MOST_BATCHES = 400
# Fillings of the queue before the warm replay is looked at.
SETTLING = 4


def gained_s(costs: Costs, batches: int | None) -> float | None:
    """Seconds by which an epoch of so many batches, from its first one's being there to its last step, is shorter than
    as many batches in the middle of a long one. None where the loader's schedule is another one.

    Workers that begin together deliver their rounds together, which wins time where the training waits for them; an
    empty queue has nothing to bridge slow batches with, which loses some where the two are about as fast.
    """
    workers, stock = costs.workers, costs.workers * max(1, costs.prefetch)
    if not workers or not costs.in_order:
        return None
    count = MOST_BATCHES if batches is None else batches
    if count > MOST_BATCHES:
        # The last round holds as many batches as that of the whole epoch.
        count = MOST_BATCHES - (MOST_BATCHES - count) % workers
    settling = SETTLING * stock
    # Compared with whole rounds, as the workers' batches come in rounds in the middle of an epoch, too.
    rounds = -(-count // workers) * workers
    rng = np.random.default_rng(0)
    shape = (settling + rounds, REPLICATES)
    busy = rng.choice(costs.load_s, shape) + rng.choice(costs.dispatch_s, shape)
    rows = rng.integers(len(costs.own_s), size=shape)
    own, delivery = costs.own_s[rows], costs.delivery_s[rows]
    first, cold = _replayed(busy[settling:], delivery[settling:], own[settling:], workers, stock)
    _, warm = _replayed(busy, delivery, own, workers, stock)
    as_many = (warm[-1] - warm[settling - 1]) * count / rounds
    return float(np.mean(as_many - (cold[count - 1] - first)))


def _replayed(busy: Array, delivery: Array, own: Array, workers: int, stock: int) -> tuple[Array, Array]:
    """From an empty queue: when the first batch is there, and when each step ends."""
    count, replicates = busy.shape
    finished = np.zeros((workers, replicates))
    there = np.zeros((stock, replicates))
    ends = np.zeros((count, replicates))
    ended = np.zeros(replicates)
    for j in range(count):
        mine = finished[j % workers]
        np.maximum(mine, there[j % stock], out=mine)
        mine += busy[j]
        slot = there[j % stock]
        np.maximum(mine, ended, out=slot)
        slot += delivery[j]
        ended = slot + own[j]
        ends[j] = ended
    return ends[0] - own[0], ends
