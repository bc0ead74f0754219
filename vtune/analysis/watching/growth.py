"""Memory that grows while one looks on: by how much, and whether that is sure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vtune.domain.watching import Growth

# A shorter look sees a queue filling.
LEAST_S = 20.0
_LEAST_READINGS = 4
# Readings that follow each other are no independent ones: an interval from their spread alone would be too narrow.
_WIDER = 3.0


def growth_of(levels: Sequence[tuple[float, int]]) -> Growth | None:
    """Of time and bytes."""
    if len(levels) < _LEAST_READINGS or levels[-1][0] - levels[0][0] < LEAST_S:
        return None
    t, held = np.asarray([one[0] for one in levels]), np.asarray([float(one[1]) for one in levels])
    t = t - t.mean()
    spread = float((t**2).sum())
    slope = float((t * held).sum() / spread)
    rest = held - held.mean() - slope * t
    error = float(np.sqrt((rest**2).sum() / (len(t) - 2) / spread))
    return Growth(bytes_per_s=slope, give_or_take=1.96 * _WIDER * error, seen_s=levels[-1][0] - levels[0][0])


def passes_in_s(growth: Growth | None, left_bytes: int | None) -> float | None:
    """None where nothing grows for sure, or what is left is not known."""
    if growth is None or left_bytes is None or growth.bytes_per_s - growth.give_or_take <= 0:
        return None
    return left_bytes / growth.bytes_per_s
