"""What a trial is worth: gains on average over all that may be true."""

import numpy as np
import pytest

from vtune.analysis.model.residuals import Corrected
from vtune.analysis.search.worth import LEAST_GAIN, expected_gain

SURE = np.array([1.0])


def over_best(*draws: float, left: float = 0.0) -> Corrected:
    return Corrected(logs=np.array(draws)[:, None], left=np.array([left]))


def test_a_sure_gain_is_worth_what_it_wins_beyond_what_counts_as_equal() -> None:
    assert expected_gain(over_best(0.2, 0.2), SURE)[0] == pytest.approx(0.2 - LEAST_GAIN)


def test_losing_costs_nothing_so_a_doubtful_one_is_worth_more_than_one_that_is_as_good() -> None:
    doubtful, equal = over_best(-0.4, 0.2), over_best(-0.01, 0.01)
    assert expected_gain(doubtful, SURE)[0] == pytest.approx((0.2 - LEAST_GAIN) / 2)
    assert expected_gain(doubtful, SURE)[0] > 10 * expected_gain(equal, SURE)[0]


def test_what_no_draw_explains_may_win_as_well() -> None:
    unexplained = expected_gain(over_best(0.0, 0.0, left=0.1), SURE)[0]
    # Of a normal distribution, by sampling it.
    sampled = np.maximum(0.0, np.random.default_rng(0).normal(-LEAST_GAIN, 0.1, 1_000_000)).mean()
    assert unexplained == pytest.approx(sampled, rel=0.01)


def test_what_may_not_fit_is_worth_its_chance() -> None:
    assert expected_gain(over_best(0.2), np.array([0.25]))[0] == pytest.approx(0.25 * (0.2 - LEAST_GAIN))


def test_a_model_that_was_off_by_more_than_it_said_may_be_so_again() -> None:
    doubted = expected_gain(over_best(-0.25, -0.05), SURE, off_times=4.0)[0]
    as_wide = expected_gain(over_best(-0.55, 0.25), SURE)[0]
    assert doubted == pytest.approx(as_wide) and expected_gain(over_best(-0.25, -0.05), SURE)[0] < doubted / 10
    assert expected_gain(over_best(-0.1, left=0.02), SURE, off_times=5.0)[0] == pytest.approx(
        expected_gain(over_best(-0.1, left=0.1), SURE)[0]
    )
