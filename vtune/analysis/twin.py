"""The loader's twin: its schedule replayed with measured costs, for a rate that no stock of ready batches can flatter.

Batch j is begun when its worker is free and its index was given out, which happens when the batch workers × prefetch
before it was delivered; batches are handed over in order, each one once the training asks for it:

    begun    = max(finished by the same worker before, delivered workers × prefetch before) + dispatch
    finished = begun + load
    there    = max(finished, training's end of the batch before) + delivery, of one that is waited for or lies ready
    ended    = there + own

A training that runs ahead of its device asks for the next batch once it has launched this one, but is never more than
one batch ahead: its device's steps follow each other, and loading goes on beside them.

A slow first step fills the queue, and a short window then sees the queue and not the workers. The replay starts from
the costs instead, so it comes to what a long run would come to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vtune.analysis.compare import RUN_TO_RUN_SD, Z95
from vtune.analysis.costs import Costs

Array = NDArray[np.float64]

BATCHES = 2000
# Of them, the first are the virtual start: the queue fills and settles; the deepest is gone through several times.
SETTLING = 0.2
LEAST_QUEUES = 4
REPLICATES = 200
# Enough for a rate without an interval: what if.
FEW = 40
# Costs of neighbouring batches that move together by more than this are resampled together: a slow spell of the
# machine lasts for many batches, and is no chance of each.
TOGETHER = 0.3
# Deliveries of one sort that make a sample.
LEAST_OF_A_SORT = 5
# With fewer than this the same slow spell is all there is.
LEAST_BLOCKS = 5


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowShare:
    """So many of the batches are slow ones, and by how much: learnt from more than this window."""

    batches: int
    ratios: tuple[float, ...]


class Training(NamedTuple):
    """Its side of each virtual batch."""

    own: Array
    # None: it asks for the next batch when this one is done with.
    launch: Array | None
    delivery_waited: Array
    delivery_ready: Array

    def take(self, j: int, finished: Array, asked: Array, ended: Array) -> tuple[Array, Array, Array]:
        """When batch j is there, when the next one is asked for, and when the step on this one ends."""
        there = np.maximum(finished, asked)
        there += np.where(finished > asked, self.delivery_waited[j], self.delivery_ready[j])
        if self.launch is None:
            done = there + self.own[j]
            return there, done, done
        return there, np.maximum(there + self.launch[j], ended), np.maximum(there, ended) + self.own[j]


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
    workers = costs.workers if workers is None else workers
    prefetch = max(1, costs.prefetch if prefetch is None else prefetch)
    in_order = costs.in_order if in_order is None else in_order
    batches = max(batches, int(LEAST_QUEUES * workers * prefetch / SETTLING))
    shape = (batches, replicates)
    rng = np.random.default_rng(seed)
    load, dispatch = _worker_side(costs, slow, shape, rng)
    training = _training_side(costs, shape, rng)
    first = _settled(batches, len(costs.pattern))
    if workers == 0:
        rates = _without_workers(load, training, first)
    elif in_order:
        rates = _in_order(load + dispatch, training, workers, prefetch, first)
    else:
        rates = _as_finished(load + dispatch, training, workers, prefetch, first)
    logs = np.log(rates)
    middle = float(logs.mean())
    low, high = (float(q) for q in np.percentile(logs, [2.5, 97.5]))
    return Replay(rate=float(np.exp(middle)), below=max(0.0, middle - low), above=max(0.0, high - middle))


def _settled(batches: int, period: int) -> int:
    """Where the virtual measurement begins: whole periods before the end."""
    return batches - 1 - max(1, int((1 - SETTLING) * batches) // period) * period


def _without_workers(load: Array, training: Training, first: int) -> Array:
    batches, replicates = load.shape
    asked = ended = begin = np.zeros(replicates)
    for j in range(batches):
        _, asked, ended = training.take(j, asked + load[j], asked, ended)
        if j == first:
            begin = ended
    rates: Array = (batches - 1 - first) / (ended - begin)
    return rates


def _in_order(busy: Array, training: Training, workers: int, prefetch: int, first: int) -> Array:
    batches, replicates = busy.shape
    finished = np.zeros((workers, replicates))
    delivered = np.zeros((workers * prefetch, replicates))
    asked = ended = begin = np.zeros(replicates)
    for j in range(batches):
        mine, slot = finished[j % workers], delivered[j % (workers * prefetch)]
        np.maximum(mine, slot, out=mine)
        mine += busy[j]
        slot[:], asked, ended = training.take(j, mine, asked, ended)
        if j == first:
            begin = ended
    rates: Array = (batches - 1 - first) / (ended - begin)
    return rates


def _as_finished(busy: Array, training: Training, workers: int, prefetch: int, first: int) -> Array:
    """Whatever is finished first is delivered first, and its worker gets the next index."""
    batches, replicates = busy.shape
    lanes = np.arange(replicates)
    # By worker, the finishing times of its batches under way, oldest first.
    under_way = np.empty((workers, prefetch, replicates))
    drawn = 0
    for place in range(prefetch):
        for worker in range(workers):
            before = under_way[worker, place - 1] if place else 0.0
            under_way[worker, place] = before + busy[drawn % batches]
            drawn += 1
    asked = ended = begin = np.zeros(replicates)
    for j in range(batches):
        worker = np.argmin(under_way[:, 0], axis=0)
        there, asked, ended = training.take(j, under_way[worker, 0, lanes], asked, ended)
        begun = np.maximum(under_way[worker, -1, lanes], there)
        for place in range(prefetch - 1):
            under_way[worker, place, lanes] = under_way[worker, place + 1, lanes]
        under_way[worker, -1, lanes] = begun + busy[(drawn + j) % batches]
        if j == first:
            begin = ended
    rates: Array = (batches - 1 - first) / (ended - begin)
    return rates


def _worker_side(
    costs: Costs, slow: SlowShare | None, shape: tuple[int, int], rng: np.random.Generator
) -> tuple[Array, Array]:
    rows = _picks(np.zeros(len(costs.load_s), int), np.zeros(1, int), costs.load_s, shape, rng)
    load = costs.load_s[rows]
    if slow is not None and slow.ratios and slow.batches:
        load = _with_slow(costs.load_s, load, slow, rng)
    return load, costs.dispatch_s[rows]


def _with_slow(seen: Array, load: Array, slow: SlowShare, rng: np.random.Generator) -> Array:
    """The window's own slow batches give way to those of all trials: what is rare is told by many batches."""
    middle = float(np.median(seen))
    ratios = np.asarray(slow.ratios)
    usual = seen[seen <= middle * ratios.min()]
    if not len(usual):
        return load
    # How many there are is itself known by count only: each replicate takes another share, none being no proof.
    share = rng.beta(len(ratios) + 0.5, max(0.5, slow.batches - len(ratios) + 0.5), load.shape[1])
    load = np.where(load > middle * ratios.min(), rng.choice(usual, load.shape), load)
    hit = rng.random(load.shape) < share
    load[hit] = middle * rng.choice(ratios, int(hit.sum()))
    return load


def _training_side(costs: Costs, shape: tuple[int, int], rng: np.random.Generator) -> Training:
    rows = _picks(costs.kind, costs.pattern, costs.own_s, shape, rng)
    pools = [costs.delivery_s[costs.waited], costs.delivery_s[~costs.waited]]
    # A window that saw too few of one sort says nothing else of it than that it is like the other.
    waited, ready = (pool if len(pool) >= LEAST_OF_A_SORT else costs.delivery_s for pool in pools)
    return Training(
        own=costs.own_s[rows],
        launch=costs.launch_s[rows] if costs.launch_s is not None else None,
        delivery_waited=rng.choice(waited, shape),
        delivery_ready=rng.choice(ready, shape),
    )


def _picks(
    kind: NDArray[np.int_], pattern: NDArray[np.int_], values: Array, shape: tuple[int, int], rng: np.random.Generator
) -> NDArray[np.int_]:
    """Rows for each virtual batch and replicate: each replicate draws from a resampling of its own, so that their
    spread is that of another window of as many batches. Rows of a kind stand in for each other; the pattern says
    which kind comes when."""
    batches, replicates = shape
    block = _block(values, kind)
    if block > 1:
        return _picks_in_blocks(len(values), block, shape, rng)
    rows = np.empty(shape, int)
    turn = np.arange(batches) % len(pattern)
    for one in np.unique(pattern):
        own = np.flatnonzero(kind == one)
        again = own[rng.integers(len(own), size=(len(own), replicates))]
        when = np.flatnonzero(pattern[turn] == one)
        drawn = rng.integers(len(own), size=(len(when), replicates))
        rows[when] = again[drawn, np.arange(replicates)]
    return rows


def _picks_in_blocks(count: int, block: int, shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.int_]:
    batches, replicates = shape
    lanes = np.arange(replicates)
    starts = rng.integers(count, size=(-(-count // block), replicates))
    again = ((starts[:, None, :] + np.arange(block)[None, :, None]) % count).reshape(-1, replicates)[:count]
    begins = rng.integers(count, size=(-(-batches // block), replicates))
    order = ((begins[:, None, :] + np.arange(block)[None, :, None]) % count).reshape(-1, replicates)[:batches]
    picked: NDArray[np.int_] = again[order, lanes]
    return picked


def _block(values: Array, kind: NDArray[np.int_]) -> int:
    """How many neighbours are drawn together: 1 where each batch's cost is a chance of its own."""
    count = len(values)
    if count < 4 * LEAST_BLOCKS:
        return 1
    left = values.astype(float).copy()
    for one in np.unique(kind):
        left[kind == one] -= left[kind == one].mean()
    power = float((left**2).sum())
    if power <= 0:
        return 1
    follows = float((left[1:] * left[:-1]).sum()) / power
    if follows < TOGETHER:
        return 1
    # The time over which a spell fades, twice.
    fades = (1 + follows) / (1 - min(follows, 0.9))
    return max(2, min(count // LEAST_BLOCKS, round(2 * fades)))
