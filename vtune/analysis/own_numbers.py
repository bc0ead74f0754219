"""Whole numbers that a data set keeps between its samples, the same in all workers: a generator made by hand, or a
counter that chooses the next record. A counter that only counts is in most of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, takewhile

from vtune.analysis.reads import WorkerReads
from vtune.domain.repeated import Repeated, Repeats

# Of each worker, once a batch was made. Steps of one length, and of two where a counter begins anew, are a counter's.
LEAST_COUNTED, LEAST_DRAWN, LEAST_STEPS = 3, 4, 3
# Batches of different indices: what is the same in both was not made from an index.
LEAST_APART = 2
# Chance would make such a sequence once in a million.
LEAST_BITS = 20.0


def same_own_numbers(workers: Sequence[WorkerReads]) -> Repeated | None:
    for first in workers:
        for name in dict.fromkeys(name for batch in first.batches for name in batch.numbers):
            alike = [one for one in workers if one is not first and _go_alike(first, one, name)]
            if not alike:
                continue
            found = Repeated(
                reason=Repeats.SAME_NUMBERS,
                workers=1 + len(alike),
                dataset="",
                where=first.places.get(name) or first.reads_at,
                generator=name,
                batches=min(len(_values(one, name)) for one in (first, *alike)),
            )
            if _is_drawn(_values(first, name)[: found.batches]):
                return found
            walk = [one for one in alike if name in first.walks and one.walks.get(name) == first.walks[name]]
            if walk:
                return Repeated(
                    reason=Repeats.NEXT_RECORD,
                    workers=1 + len(walk),
                    dataset="",
                    where=first.reads_at,
                    batches=found.batches,
                )
    return None


def _go_alike(one: WorkerReads, other: WorkerReads, name: str) -> bool:
    own, others = _values(one, name), _values(other, name)
    count = min(len(own), len(others))
    if count < LEAST_COUNTED or own[:count] != others[:count] or len(set(own[:count])) < count:
        return False
    asked = zip(one.batches[:count], other.batches[:count], strict=True)
    return sum(a.keys != b.keys for a, b in asked) >= LEAST_APART


def _is_drawn(values: Sequence[int]) -> bool:
    steps = [after - before for before, after in pairwise(values)]
    if len(values) < LEAST_DRAWN or len(set(steps)) < LEAST_STEPS:
        return False
    return len(steps) * math.log2(max(steps) - min(steps) + 1) >= LEAST_BITS


def _values(one: WorkerReads, name: str) -> list[int]:
    return [batch.numbers[name] for batch in takewhile(lambda batch: name in batch.numbers, one.batches)]
