"""Virtual batches drawn from the measured ones: each replicate from a resampling of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vtune.analysis.costs import Costs
from vtune.analysis.schedule import Array, Training

# Costs of neighbouring batches that move together by more than this are resampled together: a slow spell of the
# machine lasts for many batches, and is no chance of each.
TOGETHER = 0.3
# Deliveries of one sort that make a sample.
LEAST_OF_A_SORT = 5
# With fewer than this the same slow spell is all there is.
LEAST_BLOCKS = 5
# So many medians are no spread of an ordinary batch.
SLOW_FROM = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowShare:
    """So many of the batches are slow ones, and by how much: learnt from more than this window."""

    batches: int
    ratios: tuple[float, ...]


def drawn(
    costs: Costs, shape: tuple[int, int], rng: np.random.Generator, slow: SlowShare | None = None
) -> tuple[Array, Training]:
    """Batches by replicates: the time a worker is busy with each, and the training's side of it."""
    return _worker_side(costs, slow, shape, rng), _training_side(costs, shape, rng)


def _worker_side(costs: Costs, slow: SlowShare | None, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    rows = _picks(costs.load_kind, costs.load_pattern, costs.load_s, shape, rng)
    load = costs.load_s[rows]
    # Where kinds differ, a dear one is no slow one: the window's own are all there is to draw from.
    if slow is not None and slow.ratios and slow.batches and len(costs.load_pattern) == 1:
        load = _with_slow(costs.load_s, load, slow, rng)
    busy: Array = load + costs.dispatch_s[rows]
    return busy


def _with_slow(seen: Array, load: Array, slow: SlowShare, rng: np.random.Generator) -> Array:
    """The window's own slow batches give way to those of all trials: what is rare is told by many batches."""
    middle = float(np.median(seen))
    ratios = np.asarray(slow.ratios)
    usual = seen[seen <= middle * SLOW_FROM]
    if not len(usual):
        return load
    # How many there are is itself known by count only: each replicate takes another share, none being no proof.
    share = rng.beta(len(ratios) + 0.5, max(0.5, slow.batches - len(ratios) + 0.5), load.shape[1])
    load = np.where(load > middle * SLOW_FROM, rng.choice(usual, load.shape), load)
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
    # Blocks would break the pattern: what neighbours share beyond it is then not in the interval.
    block = _block(values) if len(pattern) == 1 else 1
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


def _block(values: Array) -> int:
    """How many neighbours are drawn together: 1 where each batch's cost is a chance of its own."""
    count = len(values)
    if count < 4 * LEAST_BLOCKS:
        return 1
    left = values - values.mean()
    power = float((left**2).sum())
    if power <= 0:
        return 1
    follows = float((left[1:] * left[:-1]).sum()) / power
    if follows < TOGETHER:
        return 1
    # The time over which a spell fades, twice.
    fades = (1 + follows) / (1 - min(follows, 0.9))
    return max(2, min(count // LEAST_BLOCKS, round(2 * fades)))
