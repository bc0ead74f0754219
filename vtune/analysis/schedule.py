"""The loader's schedule, batch after batch and for many replicates at once.

Batch j is begun when its worker is free and its index was given out, which happens when the batch workers × prefetch
before it was delivered; batches are handed over in order, each one once the training asks for it:

    begun    = max(finished by the same worker before, delivered workers × prefetch before) + dispatch
    finished = begun + load
    there    = max(finished, training's end of the batch before) + delivery, of one that is waited for or lies ready
    ended    = there + own

A training that runs ahead of its device asks for the next batch once it has launched this one, but is never more than
one batch ahead: its device's steps follow each other, and loading goes on beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Batches by replicates, in seconds.
Array = NDArray[np.float64]


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

    def after(self, batches: int) -> Training:
        own, launch, waited, ready = self
        return Training(own[batches:], None if launch is None else launch[batches:], waited[batches:], ready[batches:])


def step_ends(
    busy: Array,
    training: Training,
    *,
    workers: int,
    prefetch: int,
    in_order: bool = True,
    late_s: Sequence[float] = (),
) -> Array:
    """When the step on each batch ends, from an empty queue on. `busy`: dispatch and load of each batch. `late_s`: by
    how much each worker is ready later than the first, where batches keep their order."""
    if workers == 0:
        return _without_workers(busy, training)
    if in_order:
        return _in_order(busy, training, workers, prefetch, late_s)
    return _as_finished(busy, training, workers, prefetch)


def _without_workers(load: Array, training: Training) -> Array:
    batches, replicates = load.shape
    asked = ended = np.zeros(replicates)
    ends = np.empty((batches, replicates))
    for j in range(batches):
        _, asked, ended = training.take(j, asked + load[j], asked, ended)
        ends[j] = ended
    return ends


def _in_order(busy: Array, training: Training, workers: int, prefetch: int, late_s: Sequence[float]) -> Array:
    batches, replicates = busy.shape
    finished = np.zeros((workers, replicates))
    for worker, late in enumerate(late_s[:workers]):
        finished[worker] = late
    delivered = np.zeros((workers * prefetch, replicates))
    asked = ended = np.zeros(replicates)
    ends = np.empty((batches, replicates))
    for j in range(batches):
        mine, slot = finished[j % workers], delivered[j % (workers * prefetch)]
        np.maximum(mine, slot, out=mine)
        mine += busy[j]
        slot[:], asked, ended = training.take(j, mine, asked, ended)
        ends[j] = ended
    return ends


def _as_finished(busy: Array, training: Training, workers: int, prefetch: int) -> Array:
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
    asked = ended = np.zeros(replicates)
    ends = np.empty((batches, replicates))
    for j in range(batches):
        worker = np.argmin(under_way[:, 0], axis=0)
        there, asked, ended = training.take(j, under_way[worker, 0, lanes], asked, ended)
        begun = np.maximum(under_way[worker, -1, lanes], there)
        for place in range(prefetch - 1):
            under_way[worker, place, lanes] = under_way[worker, place + 1, lanes]
        under_way[worker, -1, lanes] = begun + busy[(drawn + j) % batches]
        ends[j] = ended
    return ends
