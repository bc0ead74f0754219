"""What was measured corrects what was predicted, near it most: where the law is off, and which draws of the costs are.

    measured = predicted by the draw + residual + noise of a launch

Draws and residual are taken together as one Gaussian prior over all settings, so a trial tells of each of them what it
can: the draws of settings like it, and a smooth residual that no physics explains.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from vtune.analysis.compare import Z95
from vtune.analysis.model.curve import weighted_scale
from vtune.analysis.model.points import Floats, Nearness

# By how much the law is off, as a logarithm, and how likely that is before the trials have told: anywhere, and more of
# settings that wait for their loader. Where nothing is waited for, the training's own time is the rate.
ANYWHERE = ((0.02, 0.5), (0.05, 0.3), (0.12, 0.2))
WAITING = ((0.03, 0.3), (0.06, 0.4), (0.12, 0.3))
# Trials of another regime tell of the law what those of this one do, and not of its level.
OTHER_REGIME = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Logarithms of rates by draw and setting; and of each setting, the share of the time that it waits for data."""

    logs: Floats
    waits: Floats

    @property
    def apart(self) -> Floats:
        """Their products are covariances."""
        apart: Floats = (self.logs - self.logs.mean(axis=0)) / np.sqrt(len(self.logs) - 1)
        return apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """Draws moved by what was measured, and the standard deviation of what is left besides."""

    logs: Floats
    left: Floats

    def interval(self) -> tuple[Floats, Floats, Floats]:
        """The middle and how far 95 % reach down and up, as logarithms."""
        low, middle, high = np.percentile(self.logs, [2.5, 50, 97.5], axis=0)
        besides = Z95 * self.left
        return middle, np.hypot(middle - low, besides), np.hypot(high - middle, besides)


class Residuals:
    """`measured`: a logarithm and a standard deviation for each trial."""

    def __init__(self, drawn: Drawn, near: Nearness, measured: Floats, sd: Floats) -> None:
        self._drawn, self._measured = drawn, measured
        off = measured - drawn.logs.mean(axis=0)
        of_draws = drawn.apart.T @ drawn.apart
        evidence, scales = [], []
        for (anywhere, first), (waiting, second) in product(ANYWHERE, WAITING):
            own = _residual(anywhere, waiting, drawn.waits, drawn.waits, near)
            factor = cho_factor(of_draws + own + np.diag(sd**2), lower=True)
            evidence.append(
                np.log(first * second) - 0.5 * off @ cho_solve(factor, off) - np.log(np.diag(factor[0])).sum()
            )
            scales.append((anywhere, waiting))
        self.anywhere, self.waiting = (
            weighted_scale(np.array(evidence), np.array(scales)[:, which]) for which in (0, 1)
        )
        self._own = _residual(self.anywhere, self.waiting, drawn.waits, drawn.waits, near) + np.diag(sd**2)
        self._factor = cho_factor(of_draws + self._own, lower=True)

    def corrected(self, drawn: Drawn, near: Nearness) -> Corrected:
        """`near`: of these settings to those of the trials."""
        gain, cross = self._gain(drawn, near)
        return Corrected(logs=self._moved(drawn, gain), left=self._left(drawn, gain, cross))

    def over_last(self, drawn: Drawn, near: Nearness, to_last: Nearness) -> Corrected:
        """Of each setting but the last, its logarithm less the last one's: what both share cancels."""
        gain, cross = self._gain(drawn, near)
        waits, last = drawn.waits, gain[-1]
        shared = _residual(self.anywhere, self.waiting, waits, waits[-1:], to_last)[:, 0]
        shared = shared - gain @ cross[-1] - cross @ last + gain @ (self._own @ last)
        alone = self._left(drawn, gain, cross) ** 2
        left = alone + alone[-1] - 2 * shared
        moved = self._moved(drawn, gain)
        return Corrected(logs=moved[:, :-1] - moved[:, -1:], left=np.sqrt(np.maximum(left[:-1], 0.0)))

    def _left(self, drawn: Drawn, gain: Floats, cross: Floats) -> Floats:
        alone = self.anywhere**2 + (self.waiting * drawn.waits) ** 2
        left = alone - 2 * (gain * cross).sum(axis=1) + ((gain @ self._own) * gain).sum(axis=1)
        root: Floats = np.sqrt(np.maximum(left, 0.0))
        return root

    def _gain(self, drawn: Drawn, near: Nearness) -> tuple[Floats, Floats]:
        """How far each trial's surprise moves each of the settings; and what of their residual is shared."""
        cross = _residual(self.anywhere, self.waiting, drawn.waits, self._drawn.waits, near)
        return cho_solve(self._factor, (drawn.apart.T @ self._drawn.apart + cross).T).T, cross

    def _moved(self, drawn: Drawn, gain: Floats) -> Floats:
        moved: Floats = drawn.logs + (self._measured - self._drawn.logs) @ gain.T
        return moved


def _residual(anywhere: float, waiting: float, waits: Floats, other: Floats, near: Nearness) -> Floats:
    residual: Floats = (anywhere**2 + waiting**2 * np.outer(waits, other)) * near.settings
    return residual * np.where(near.alike, 1.0, OTHER_REGIME)
