import random

import pytest

from vtune.analysis.estimate import half_width, rate_with_interval


def test_equal_steps_give_their_rate_and_only_the_run_to_run_spread() -> None:
    rate, interval = rate_with_interval([0.5] * 50, [4] * 50, group=2)
    assert rate == pytest.approx(8.0)
    assert half_width(rate, interval) == pytest.approx(1.96 * 0.015, rel=0.02)


def test_the_rate_is_of_totals_not_of_steps() -> None:
    # A median or a mean of rates would call this 4 samples a second.
    rate, _ = rate_with_interval([0.25, 2.25] * 20, [1, 1] * 20, group=2)
    assert rate == pytest.approx(0.8)


def test_convoys_of_the_workers_do_not_widen_the_interval() -> None:
    convoy = [3.0, 0.1, 0.1] * 20
    grouped = half_width(*rate_with_interval(convoy, [1] * 60, group=3))
    alone = half_width(*rate_with_interval(convoy, [1] * 60, group=1))
    assert grouped is not None and alone is not None and grouped < alone / 3


def test_too_few_groups_give_no_interval() -> None:
    assert rate_with_interval([1.0] * 3, [1] * 3, group=1)[1] is None


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    dice = random.Random(3)
    covered = 0
    for _ in range(300):
        times = [dice.gammavariate(4, 0.25) for _ in range(60)]
        _, interval = rate_with_interval(times, [1] * 60, group=2)
        assert interval is not None
        covered += interval[0] <= 1.0 <= interval[1]
    assert covered >= 275
