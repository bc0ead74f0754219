"""Processes that step the same training wait for each other in every step; others keep a pace of their own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

# Processes that wait for each other in every step end it within this many steps.
STEPS_APART = 3


def in_lockstep(ends: Sequence[Sequence[float]]) -> bool:
    """`ends`: when each process's steps ended."""
    common = min(len(one) for one in ends)
    durations = [after - before for before, after in pairwise(ends[0])]
    if not durations or not common:
        return True
    last = [one[common - 1] for one in ends]
    return max(last) - min(last) <= STEPS_APART * max(median(durations), durations[max(0, common - 2)])


def paces(ends: Sequence[Sequence[float]], samples: Sequence[float]) -> float:
    """Samples of all processes over those of the first, in the time in which all of them step. `samples`: of a step."""
    if len(ends) < 2 or in_lockstep(ends):
        return float(len(ends))
    begin, end = max(one[0] for one in ends), min(one[-1] for one in ends)
    rates = []
    for own, by_step in zip(ends, samples, strict=True):
        within = [ended_s for ended_s in own if begin <= ended_s <= end]
        rates.append(by_step * (len(within) - 1) / (within[-1] - within[0]) if len(within) > 1 else 0.0)
    # Processes that never stepped at the same time: each is a training alone.
    return sum(rates) / rates[0] if rates[0] > 0 else 1.0
