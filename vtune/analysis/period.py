"""Work that is done every n-th step (a distance loss, logging, an average of weights): found by folding the steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Array = NDArray[np.float64]

# Seen less often it may be chance.
LEAST_SEEN = 3
# Such steps are dearer by more than noise …
DEARER = 1.2
# … and so many of all foldings would show as clear a one if the order of the steps were chance.
BY_CHANCE = 0.02
# Each further period goes over all steps once more. What comes more seldom than that counts as often as it was seen.
LONGEST = 1000


def every_nth(step_s: Array) -> tuple[int, int] | None:
    """The period and the first such step, counted from the first one given; None where nothing recurs."""
    count = len(step_s)
    longest = min(count // LEAST_SEEN, LONGEST)
    if longest < 2 or float(step_s.min()) == float(step_s.max()):
        return None
    mean, total_s, in_order = float(step_s.mean()), float(step_s.sum()), np.sort(step_s)
    # Every period and every phase of it is a folding.
    by_chance = np.log(BY_CHANCE) - np.log(longest * (longest + 1) / 2)
    best, found = 0.0, None
    for period in range(2, longest + 1):
        whole = count // period
        folded, left = step_s[: whole * period].reshape(whole, period), step_s[whole * period :]
        own, sums, least = np.full(period, whole), folded.sum(axis=0), folded.min(axis=0)
        own[: len(left)] += 1
        sums[: len(left)] += left
        least[: len(left)] = np.minimum(least[: len(left)], left)
        means = sums / own
        # A multiple of the true period explains less, a divisor of it dilutes.
        explains = np.where((own >= LEAST_SEEN) & (means > mean), own * (means - mean) ** 2, 0.0)
        rest = (total_s - sums) / (count - own)
        explains = np.where(means > DEARER * rest, explains, 0.0)
        if float(explains.max()) <= best:
            continue
        # All steps that took as long as the shortest of them, or longer, but for themselves.
        above = count - np.searchsorted(in_order, least, side="left") - own
        explains = np.where(_log_choose(own + above, above) - _log_choose(count, own) < by_chance, explains, 0.0)
        phase = int(np.argmax(explains))
        if float(explains[phase]) > best:
            best, found = float(explains[phase]), (period, phase)
    return found


def _log_choose(n: NDArray[np.int_] | int, k: NDArray[np.int_]) -> Array:
    chosen: Array = gammaln(np.asarray(n) + 1.0) - gammaln(k + 1.0) - gammaln(np.asarray(n) - k + 1.0)
    return chosen
