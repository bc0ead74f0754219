"""Whether memory grows without an end: a straight line through what is held, shown by its floor and by both halves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vtune.analysis.growth_series import Level

# Fewer looks cannot tell a leak from a buffer that comes and goes.
LEAST_LEVELS = 8
# Allocators settle: less than this over a window is not worth a projection a thousand times as long.
LEAST_GROWTH_BYTES = 4 * 2**20
BLOCKS = 6
# Of the pairs of blocks, those whose floor rises less those whose floor falls: by chance in 3 of 1000 windows.
RISES = 11 / 15
# What fills and stays full slows down; what leaks does not. Slope of the later half over that of the earlier one.
LASTING = 0.5
# As sure of the slope as this, in standard errors: most windows have no leak, and each is asked.
SURE = 3.0
T95 = 2.1
# One look in an hour tells nothing of a process that jumps once.
LARGEST_JUMP = 0.6

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    bytes_per_step: float
    ci95: tuple[float, float]


def find_leak(levels: Sequence[Level]) -> Leak | None:
    """None where none is shown."""
    if len(levels) < LEAST_LEVELS:
        return None
    steps = np.asarray([level.step for level in levels], dtype=float)
    held = np.asarray([level.bytes for level in levels], dtype=float)
    span = float(steps[-1] - steps[0])
    if span < BLOCKS:
        return None
    slope, error = _line(steps, held)
    grown = slope * span
    if grown < LEAST_GROWTH_BYTES or slope < SURE * error:
        return None
    if not _floor_rises(steps, held) or not _lasts(steps, held, slope):
        return None
    rises = np.diff(held)
    if rises.max() > LARGEST_JUMP * grown and rises.max() > LEAST_GROWTH_BYTES:
        return None  # one step up, however high, is no slope
    return Leak(bytes_per_step=slope, ci95=(slope - T95 * error, slope + T95 * error))


def least_that_shows(levels: Sequence[Level]) -> float | None:
    """Bytes a step that a leak needs in order to be called one here; None where the looks span no step."""
    if len(levels) < 2 or (span := levels[-1].step - levels[0].step) < 1:
        return None
    held = [level.bytes for level in levels]
    if len(levels) < LEAST_LEVELS or span < BLOCKS:
        # Too few to call anything a leak: all that they differ by may be one.
        return (LEAST_GROWTH_BYTES + max(held) - min(held)) / span
    _, error = _line(np.asarray([level.step for level in levels], dtype=float), np.asarray(held, dtype=float))
    return max(LEAST_GROWTH_BYTES / span, SURE * error)


def _line(steps: Numbers, held: Numbers) -> tuple[float, float]:
    """Slope and its standard error; neighbouring looks are alike, and count for less than they are."""
    around = steps - steps.mean()
    square = float(around @ around)
    slope = float(around @ held) / square
    rest = held - held.mean() - slope * around
    spread = float(rest @ rest)
    error = float(np.sqrt(spread / max(1, len(steps) - 2) / square))
    alike = float(rest[1:] @ rest[:-1]) / spread if spread > 0 else 0.0
    alike = min(0.9, max(0.0, alike))
    return slope, error * float(np.sqrt((1 + alike) / (1 - alike)))


def _floor_rises(steps: Numbers, held: Numbers) -> bool:
    """What comes and goes leaves the lowest level of each block where it was."""
    edges = np.linspace(steps[0], steps[-1], BLOCKS + 1)[1:-1]
    block = np.searchsorted(edges, steps, side="right")
    floors = [held[block == number].min() for number in range(BLOCKS) if (block == number).any()]
    pairs = [np.sign(later - earlier) for at, earlier in enumerate(floors) for later in floors[at + 1 :]]
    return len(floors) >= BLOCKS - 1 and float(np.mean(pairs)) >= RISES


def _lasts(steps: Numbers, held: Numbers, slope: float) -> bool:
    later = steps >= (steps[0] + steps[-1]) / 2
    if later.sum() < LEAST_LEVELS // 2 or (~later).sum() < LEAST_LEVELS // 2:
        return False
    earlier_slope, later_slope = _line(steps[~later], held[~later])[0], _line(steps[later], held[later])[0]
    return later_slope >= LASTING * max(slope, earlier_slope)
