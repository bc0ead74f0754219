"""A leak that may have begun at any time: the growth of late, over stretches of every length that end now.

A stretch is judged by itself, so the quiet hours before it hide nothing. Memory also grows for good reasons, and stops:
an epoch fills what its end gives back, a cache is full one day, a validation takes its part once. So nobody looks much
further ahead than the growth has lasted, and nothing is decided before the time that a training needs to save.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vtune.analysis.growth_leak import LEAST_GROWTH_BYTES, LEAST_LEVELS, find_leak
from vtune.analysis.growth_series import Level

# The stretches: the shortest in which steady growth can be told from one jump, and each so much longer than the last.
SHORTEST_S, LONGER = 6.0, 1.15
# How far ahead, in lengths of the stretch.
AHEAD = 0.85
# From quarter to quarter of the stretch it grows at least by this part of the most: else the stretch begins before the
# growth, or the growth has ended.
STEADY = 0.65
# Of what it has grown by, the most that may come within this part of the stretch: two jumps are no slope.
JUMP, JUMP_WITHIN = 0.35, 1 / 8
# All readings of the last so many; of earlier ones, this many for each doubling of their age, and some.
KEPT_DENSE = 150

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LateLeak:
    bytes_per_s: float
    # Until the limit at this pace, and over how long it was seen.
    in_s: float
    seen_s: float


def find_late_leak(times_s: Sequence[float], held: Sequence[int], room: int, within_s: float) -> LateLeak | None:
    """The growth that fills `room` within so many seconds; of several stretches the longest tells, as the surest."""
    t, b = np.asarray(times_s, dtype=float), np.asarray(held, dtype=float)
    if len(t) < LEAST_LEVELS:
        return None
    now_s = float(t[-1])
    number = 1 + max(0, int(np.log(max(1.0, (now_s - t[0]) / SHORTEST_S)) / np.log(LONGER)))
    begins = np.searchsorted(t, now_s - SHORTEST_S * LONGER ** np.arange(number) - 1e-6)
    records = np.maximum.accumulate(b)
    # From each reading to the last: no line through these grows by much more than they differ by.
    spread = (np.maximum.accumulate(b[::-1]) - np.minimum.accumulate(b[::-1]))[::-1]
    for begin in begins[::-1]:
        if len(t) - begin < LEAST_LEVELS or room > 1.5 * AHEAD * spread[begin]:
            continue
        if begin and b[-1] < records[begin - 1] + LEAST_GROWTH_BYTES:
            continue  # it was as high before: it comes and goes
        leak = _leak(t[begin:], b[begin:], room, within_s)
        if leak is not None:
            return leak
    return None


def _leak(t: Numbers, b: Numbers, room: int, within_s: float) -> LateLeak | None:
    around, seen_s = t - t.mean(), float(t[-1] - t[0])
    slope = float(around @ b) / float(around @ around)
    # The cheap questions first: most looks end here.
    if slope <= 0 or (in_s := max(0.0, room / slope)) >= min(within_s, AHEAD * seen_s):
        return None
    shortly_before = np.maximum(0, np.searchsorted(t, t - JUMP_WITHIN * seen_s, side="right") - 1)
    if (b - b[shortly_before]).max() > JUMP * slope * seen_s or not _is_steady(t, b, room):
        return None
    levels = [Level(step=at, bytes=int(level)) for at, level in zip((t - t[0]).tolist(), b.tolist(), strict=True)]
    return LateLeak(bytes_per_s=slope, in_s=in_s, seen_s=seen_s) if find_leak(levels) is not None else None


def _is_steady(t: Numbers, b: Numbers, room: int) -> bool:
    """It has grown all the time, and still does. Growth that slows by the same part from quarter to quarter comes to a
    sum that is known: it has to be more than the room."""
    quarter = np.minimum(3, (4 * (t - t[0]) / (t[-1] - t[0])).astype(int))
    first, second, third = np.diff([b[quarter == number].mean() for number in range(4)])
    if min(first, second, third) < STEADY * max(first, second, third):
        return False
    part = min(third / second, float(np.sqrt(third / first)))
    return part >= 1 or bool(third * part / (1 - part) >= room)


def thinned(times_s: Sequence[float]) -> list[int]:
    """Which of them to keep: of late all, and ever fewer the older they are, so that each stretch has enough."""
    kept, now_s = [0], times_s[-1]
    for at in range(1, len(times_s) - 1):
        if times_s[at + 1] - times_s[kept[-1]] > (now_s - times_s[at]) / KEPT_DENSE:
            kept.append(at)
    return [*kept, len(times_s) - 1] if len(times_s) > 1 else kept
