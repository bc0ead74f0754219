"""What a trial of each candidate is worth: what it is predicted to win, and what it may."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from vtune.analysis.model.points import Floats
from vtune.analysis.model.residuals import Corrected

# What counts as equal is no gain, as a logarithm: half of what two launches differ by.
LEAST_GAIN = 0.01


def expected_gain(over_best: Corrected, chance: Floats, *, off_times: float = 1.0) -> Floats:
    """What a trial wins over the best so far on average, as a logarithm; losing costs nothing but the trial. So what is
    doubtful is worth more than what is known to be as good. `chance`: that it runs at all, and fits. `off_times`: by so
    many times what it says of itself the model was off before, and may be off again."""
    logs = over_best.logs
    if off_times != 1.0:
        middle = np.median(logs, axis=0)
        logs = middle + off_times * (logs - middle)
    gains = logs - LEAST_GAIN
    sd = np.maximum(off_times * over_best.left, 1e-6)
    scaled = gains / sd
    won = gains * ndtr(scaled) + sd * np.exp(-0.5 * scaled**2) / np.sqrt(2 * np.pi)
    expected: Floats = won.mean(axis=0) * chance
    return expected
