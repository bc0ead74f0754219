"""One cost over the settings: a few shapes that it may have, each as likely as the trials make it, and a smooth rest.

    log cost = level of its regime + shape + wiggle + noise

Level and wiggle are a Gaussian process, so one decomposition serves all the shapes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import ndtri

from vtune.analysis.model.points import Floats, Nearness

# Of a level, as a logarithm: the first one is taken from the trials alone, that of another regime is like it at most a
# few times over.
ANY_LEVEL = 5.0
OTHER_REGIME = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """`y`: logarithms of what was seen, one column a trial, and one row a shape where the shapes see it differently."""

    shapes: Floats
    y: Floats
    sd: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Picks:
    """So many shapes, each as often as it is likely, and for each how far off the middle it lies."""

    shapes: NDArray[np.int_]
    off: Floats


class Curve:
    """`wiggles`: how large the smooth rest may be, and how likely that is before the trials have told."""

    def __init__(self, seen: Seen, near: Nearness, *, prior: Floats, wiggles: tuple[tuple[float, float], ...]) -> None:
        rest = seen.y - seen.shapes
        self._centre = float(rest.mean())
        rest = rest - self._centre
        noise = np.diag(seen.sd**2)
        fits = [self._fit(rest, _covariance(near, wiggle) + noise, prior) for wiggle, _ in wiggles]
        evidence = np.array([fit.evidence + np.log(chance) for fit, (_, chance) in zip(fits, wiggles, strict=True)])
        self.wiggle = weighted_scale(evidence, np.array([wiggle for wiggle, _ in wiggles]))
        fit = self._fit(rest, _covariance(near, self.wiggle) + noise, prior)
        self._factor, self._weights, self.likely = fit.factor, fit.weights, fit.likely

    def pick(self, count: int, rng: np.random.Generator) -> Picks:
        edges = np.cumsum(self.likely)
        shapes = np.searchsorted(edges, (np.arange(count) + 0.5) / count).clip(max=len(edges) - 1)
        return Picks(shapes=rng.permutation(shapes), off=rng.permutation(normal_scores(count)))

    def at(self, shapes: Floats, near: Nearness, picks: Picks) -> Floats:
        """Logarithms, one row for each pick. `near`: of these settings to those of the trials."""
        cross = _covariance(near, self.wiggle)
        means = shapes + self._centre + (cross @ self._weights).T
        own = ANY_LEVEL**2 + OTHER_REGIME**2 + self.wiggle**2
        left = own - np.einsum("mn,nm->m", cross, cho_solve(self._factor, cross.T))
        picked: Floats = means[picks.shapes] + picks.off[:, None] * np.sqrt(np.maximum(left, 0.0))
        return picked

    @staticmethod
    def _fit(rest: Floats, covariance: Floats, prior: Floats) -> _Fit:
        factor = cho_factor(covariance, lower=True)
        weights = cho_solve(factor, rest.T)
        fits = np.log(prior) - 0.5 * np.einsum("hn,nh->h", rest, weights) - np.log(np.diag(factor[0])).sum()
        top = fits.max()
        likely = np.exp(fits - top)
        return _Fit(factor, weights, likely / likely.sum(), float(top + np.log(likely.sum())))


@dataclass(frozen=True, slots=True)
class _Fit:
    factor: tuple[Floats, bool]
    weights: Floats
    likely: Floats
    evidence: float


def weighted_scale(evidence: Floats, scales: Floats) -> float:
    """Of several scales the middle one by what speaks for each; their mean would be the largest one's for long."""
    likely = np.exp(evidence - evidence.max())
    return float(np.exp(likely @ np.log(scales) / likely.sum()))


def normal_scores(count: int) -> Floats:
    """As many values as if drawn from a normal distribution, evenly: what hangs on few of them should not be luck."""
    scores: Floats = ndtri((np.arange(count) + 0.5) / count)
    scores /= scores.std()
    return scores


def _covariance(near: Nearness, wiggle: float) -> Floats:
    covariance: Floats = ANY_LEVEL**2 + (OTHER_REGIME**2 + wiggle**2 * near.settings) * near.alike
    return covariance
