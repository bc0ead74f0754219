"""How costs go over the time of a window: do they drift, and for how many batches are they slow or fast in a row?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from vtune.analysis.costs import Costs
from vtune.analysis.worker_costs import Array, Kinds
from vtune.domain.steady import Side

# Fewer costs than this have no course.
LEAST = 20
# The correlation is added up as far as five times what it has come to: further out it is noise (Sokal's rule).
SOKAL = 5
# Neighbours that resemble each other by less than this do so by chance in a short window.
ALIKE = 0.3
# How sharply the slower side sets the pace: 1 at even paces means that both matter by half.
SHARPNESS = 8.0
# A side counts by what the rate would lose if its costs rose by so much: a cache that ends brings more than a percent.
RISE = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Costs of one side, each over the mean of its kind, in the order of time."""

    side: Side
    ratios: Array
    # The share of a change of these costs that comes through to the rate.
    weight: float

    @property
    def lasts(self) -> float:
        """For how many of them the costs resemble each other; 1 where each is a chance of its own."""
        return lasting(self.ratios)

    @property
    def error(self) -> float:
        """Half of the 95 % interval of their mean, as a share: of as many chances as there are spells in the window."""
        count = len(self.ratios)
        spells = max(2.0, count / self.lasts)
        return float(stdtrit(spells - 1, 0.975) * self.ratios.std(ddof=1) / np.sqrt(spells))

    @property
    def change(self) -> tuple[float, float]:
        """From the window's beginning to its end along a straight line, and the standard error of that."""
        count = len(self.ratios)
        t = np.linspace(-0.5, 0.5, count)
        slope = float((t @ self.ratios) / (t @ t))
        left = self.ratios - self.ratios.mean() - slope * t
        return slope, float(np.sqrt((left @ left) / (count - 2) * lasting(left) / (t @ t)))


def courses_of(costs: Costs) -> list[Course]:
    """Of both sides, as far as they were seen for long enough."""
    own, load = (_ratios(*side) for side in ((costs.own_s, costs.kind), (costs.load_s, costs.load_kind)))
    for_own, for_load = _weights(costs)
    found = [
        Course(side="training", ratios=own, weight=for_own),
        Course(side="loader", ratios=load, weight=for_load),
    ]
    return [course for course in found if len(course.ratios) >= LEAST]


def sampling_error(costs: Costs) -> float:
    """Half of the rate's 95 % interval by what lasts for longer than a batch: nought where nothing does."""
    return max((one.weight * one.error for one in courses_of(costs) if one.lasts > _by_chance(one)), default=0.0)


def _by_chance(course: Course) -> float:
    """What the correlation times of costs without any reach in one window of forty (two standard errors)."""
    return 1 + 2 * math.sqrt(2 * (2 * SOKAL + 1) / len(course.ratios))


def lasting(values: Array) -> float:
    """The integrated correlation time. A short window flatters it, so the correlation of neighbours is corrected for
    the window's length (Kendall), and stands for the rest where that comes to more."""
    count = len(values)
    left = values - values.mean()
    power = float(left @ left)
    if count < LEAST or power <= 0:
        return 1.0
    spectrum = np.abs(np.fft.rfft(left, 2 * count)) ** 2
    alike = np.fft.irfft(spectrum)[: count // 2] / power
    added = 2 * np.cumsum(alike) - 1
    far_enough = np.flatnonzero(np.arange(len(added)) >= SOKAL * np.maximum(added, 1.0))
    found = float(added[far_enough[0]] if len(far_enough) else added.max())
    next_to = float(alike[1])
    if next_to > ALIKE:
        next_to = min(next_to + (1 + 3 * next_to) / count, 1 - 1 / count)
        found = max(found, (1 + next_to) / (1 - next_to))
    return min(max(1.0, found), float(count))


def _ratios(values: Array, kind: Kinds) -> Array:
    """Kinds come in a pattern, which is no course."""
    means = np.bincount(kind, weights=values) / np.maximum(np.bincount(kind), 1)
    usual = means[kind]
    return np.divide(values, usual, out=np.ones(len(values)), where=usual > 0)


def _weights(costs: Costs) -> tuple[float, float]:
    """Of the training's costs and of the loader's."""
    own_s, load_s = float(costs.own_s.mean()), float(costs.load_s.mean() + costs.dispatch_s.mean())

    def step_s(own_s: float, load_s: float) -> float:
        if not costs.delivering:
            return own_s + load_s
        by_loader_s, longer_s = load_s / costs.delivering, max(own_s, load_s / costs.delivering)
        if longer_s <= 0:
            return 0.0
        sides = (own_s / longer_s) ** SHARPNESS + (by_loader_s / longer_s) ** SHARPNESS
        return float(longer_s * sides ** (1 / SHARPNESS))

    now_s = step_s(own_s, load_s)
    if now_s <= 0:
        return 0.0, 0.0
    rises = (step_s(RISE * own_s, load_s), step_s(own_s, RISE * load_s))
    for_own, for_load = (float(np.log(one / now_s) / np.log(RISE)) for one in rises)
    return for_own, for_load
