"""One cost over the settings: what few trials say of it, and what they leave open."""

from collections.abc import Sequence

import numpy as np
import pytest

from vtune.analysis.model.curve import Curve, Seen, normal_scores, weighted_scale
from vtune.analysis.model.points import Floats, Nearness

FIXED = np.linspace(0.0, 0.9, 10)
WIGGLES = ((0.01, 0.7), (0.1, 0.3))


def shapes(batches: Sequence[float]) -> Floats:
    """A part that is fixed, and one that grows with the batch."""
    return np.log(FIXED[:, None] + (1 - FIXED[:, None]) * np.asarray(batches, float)[None, :])


def near(one: Sequence[float], other: Sequence[float], regimes: tuple[Sequence[int], Sequence[int]]) -> Nearness:
    gaps = np.log2(np.asarray(one)[:, None] / np.asarray(other)[None, :]) / 1.5
    alike = np.asarray(regimes[0])[:, None] == np.asarray(regimes[1])[None, :]
    return Nearness(settings=np.exp(-0.5 * gaps**2), alike=alike)


def predicted(
    batches: Sequence[float], costs: Sequence[float], at: float, *, sd: float = 0.01, regimes: Sequence[int] = ()
) -> tuple[float, float, float]:
    """The middle and 95 % of the cost at another batch, in the regime of the last trial."""
    own = list(regimes) or [0] * len(batches)
    y = np.broadcast_to(np.log(np.asarray(costs)), (len(FIXED), len(costs)))
    seen = Seen(shapes=shapes(batches), y=y, sd=np.full(len(costs), sd))
    curve = Curve(seen, near(batches, batches, (own, own)), prior=np.ones(len(FIXED)), wiggles=WIGGLES)
    picks = curve.pick(400, np.random.default_rng(0))
    found = np.exp(curve.at(shapes([at]), near([at], batches, ([own[-1]], own)), picks))[:, 0]
    low, middle, high = np.percentile(found, [2.5, 50, 97.5])
    return float(middle), float(low), float(high)


def test_one_batch_size_leaves_open_what_a_larger_one_costs() -> None:
    middle, low, high = predicted([1], [1.0], 4)
    assert 1.0 < low < 2.0
    assert 3.0 < high < 4.3
    assert low < middle < high


def test_two_batch_sizes_tell_the_fixed_part() -> None:
    middle, low, high = predicted([1, 2], [1.0, 1.5], 8)
    assert middle == pytest.approx(4.5, rel=0.1)
    assert low < 4.5 < high < 1.6 * low


def test_what_was_measured_is_known_within_its_noise() -> None:
    middle, low, high = predicted([1, 2, 4], [1.0, 1.9, 4.4], 2)
    assert middle == pytest.approx(1.9, rel=0.03)
    assert high / low < 1.12


def test_a_step_that_no_shape_has_is_followed_where_it_was_measured() -> None:
    """A batch from which on everything takes twice as long."""
    middle, _, _ = predicted([1, 2, 4, 8], [1.0, 2.0, 8.0, 16.0], 8)
    assert middle == pytest.approx(16.0, rel=0.1)


def test_another_regime_has_its_own_level_and_the_same_shape() -> None:
    middle, low, high = predicted([1, 2, 4, 1], [1.0, 1.5, 2.5, 0.4], 4, regimes=[0, 0, 0, 1])
    assert middle == pytest.approx(1.0, rel=0.1)
    assert low < 1.0 < high


def test_trials_that_contradict_each_other_make_it_doubtful() -> None:
    _, low, high = predicted([1, 1.01, 2, 2.02], [1.0, 1.4, 2.0, 1.3], 4, sd=0.1)
    _, sure_low, sure_high = predicted([1, 1.01, 2, 2.02], [1.0, 1.0, 1.6, 1.6], 4, sd=0.01)
    assert high / low > 1.5 * sure_high / sure_low


def test_a_scale_that_nothing_speaks_for_stays_as_likely_as_before() -> None:
    known = weighted_scale(np.log(np.array([0.7, 0.3])), np.array([0.01, 0.1]))
    assert 0.01 < known < 0.03
    assert weighted_scale(np.array([0.0, 50.0]), np.array([0.01, 0.1])) == pytest.approx(0.1)


def test_scores_are_spread_as_normal_draws_are() -> None:
    scores = normal_scores(128)
    assert float(scores.mean()) == pytest.approx(0.0, abs=1e-9)
    assert float(scores.std()) == pytest.approx(1.0)
    assert float(np.mean(np.abs(scores) < 1.96)) == pytest.approx(0.95, abs=0.02)
