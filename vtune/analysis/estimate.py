"""The rate of a window and its interval, from batch means. Short windows are widened, never flattered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from vtune.analysis.compare import RUN_TO_RUN_SD, Z95

# Fewer groups than this give an interval that is too wide or too lucky to mean anything.
LEAST_GROUPS = 4


def rate_with_interval(
    durations_s: Sequence[float], samples: Sequence[float], group: int
) -> tuple[float, tuple[float, float] | None]:
    """Samples a second over the window; steps are grouped because loader workers deliver in convoys of their number."""
    time, count = np.asarray(durations_s, float), np.asarray(samples, float)
    rate = float(count.sum() / time.sum())
    group = max(1, group)
    while group > 1 and len(time) // group < LEAST_GROUPS:
        group //= 2
    whole = len(time) // group
    if whole < LEAST_GROUPS:
        return rate, None
    used = whole * group
    time_by_group = time[-used:].reshape(whole, group).sum(axis=1)
    count_by_group = count[-used:].reshape(whole, group).sum(axis=1)
    # Ratio estimator: the spread of what each group took beyond its fair time.
    excess = time_by_group - count_by_group / rate
    se = float(np.sqrt((excess**2).sum() / (whole - 1) / whole) / time_by_group.mean())
    spread = float(np.hypot(stdtrit(whole - 1, 0.975) * se, Z95 * RUN_TO_RUN_SD))
    return rate, (rate / (1 + spread), rate * (1 + spread))


def half_width(rate: float, interval: tuple[float, float] | None) -> float | None:
    """Half the interval as a share of the rate."""
    return None if interval is None else (interval[1] - interval[0]) / 2 / rate
