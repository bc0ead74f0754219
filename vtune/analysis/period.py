"""Work that is done every n-th step (a distance loss, logging, an average of weights): found by folding the steps."""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import NDArray

# Seen less often it may be chance.
LEAST_SEEN = 3
# Such steps are dearer by more than noise …
DEARER = 1.2
# … and so many of all foldings would show as clear a one if the order of the steps were chance.
BY_CHANCE = 0.02


def every_nth(step_s: NDArray[np.float64]) -> tuple[int, int] | None:
    """The period and the first such step, counted from the first one given; None where nothing recurs."""
    count = len(step_s)
    best, found = 0.0, None
    mean = float(step_s.mean()) if count else 0.0
    longest = count // LEAST_SEEN
    foldings = longest * (longest + 1) // 2
    for period in range(2, longest + 1):
        for phase in range(period):
            own = step_s[phase::period]
            if len(own) < LEAST_SEEN or own.mean() <= mean:
                continue
            # A multiple of the true period explains less, a divisor of it dilutes.
            explains = len(own) * (float(own.mean()) - mean) ** 2
            if explains <= best:
                continue
            rest = np.delete(step_s, np.s_[phase::period])
            above = int((rest >= own.min()).sum())
            chance = foldings * comb(len(own) + above, above) / comb(count, len(own))
            if chance < BY_CHANCE and own.mean() > DEARER * rest.mean():
                best, found = explains, (period, phase)
    return found
