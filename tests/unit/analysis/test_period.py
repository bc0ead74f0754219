import time
from math import comb

import numpy as np
import pytest

from vtune.analysis.period import BY_CHANCE, DEARER, LEAST_SEEN, LONGEST, every_nth

NOISE = np.random.default_rng(0).gamma(100, 0.01, 60)


def test_work_of_every_nth_step_is_found_with_its_place() -> None:
    steps = NOISE.copy()
    steps[5::16] += 0.8
    assert every_nth(steps) == (16, 5)


def test_the_true_period_is_told_not_its_multiple_or_divisor() -> None:
    steps = NOISE.copy()
    steps[1::4] += 0.8
    assert every_nth(steps) == (4, 1)


def test_steps_that_only_vary_have_no_period() -> None:
    assert every_nth(np.full(60, 0.1)) is None
    found = [every_nth(np.random.default_rng(seed).gamma(4, 0.25, 60)) for seed in range(100)]
    assert sum(one is not None for one in found) <= 5


def test_a_single_slow_step_is_no_period() -> None:
    steps = NOISE.copy()
    steps[30] = 20.0
    assert every_nth(steps) is None


def test_a_window_of_a_few_steps_tells_nothing() -> None:
    assert every_nth(np.asarray([1.0, 5.0, 1.0, 5.0, 1.0])) is None
    assert every_nth(np.zeros(0)) is None


def folded_one_by_one(step_s: np.ndarray) -> tuple[int, int] | None:
    """The same rule, each folding by itself."""
    best, found, mean, count = 0.0, None, float(step_s.mean()), len(step_s)
    longest = count // LEAST_SEEN
    foldings = longest * (longest + 1) // 2
    for period in range(2, longest + 1):
        for phase in range(period):
            own = step_s[phase::period]
            explains = len(own) * (float(own.mean()) - mean) ** 2
            if len(own) < LEAST_SEEN or own.mean() <= mean or explains <= best:
                continue
            rest = np.delete(step_s, np.s_[phase::period])
            above = int((rest >= own.min()).sum())
            chance = foldings * comb(len(own) + above, above) / comb(count, len(own))
            if chance < BY_CHANCE and own.mean() > DEARER * rest.mean():
                best, found = explains, (period, phase)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_all_foldings_at_once_find_the_same_as_one_by_one(seed: int) -> None:
    dice = np.random.default_rng(seed)
    steps = dice.gamma(dice.choice([1, 4, 100]), 0.1, int(dice.integers(20, 90)))
    if seed % 2:
        period = int(dice.integers(2, 20))
        steps[int(dice.integers(period)) :: period] += steps.mean() * dice.uniform(0.2, 3)
    assert every_nth(steps) == folded_one_by_one(steps)


def test_a_long_window_is_folded_in_time_that_grows_as_its_steps() -> None:
    dice = np.random.default_rng(0)
    took = []
    for count in (20_000, 80_000):
        steps = dice.gamma(100, 0.01, count)
        steps[3::16] += 0.8
        began_s = time.process_time()
        assert every_nth(steps) == (16, 3)
        took.append(time.process_time() - began_s)
    assert took[1] < 8 * took[0] and took[1] < 10.0


def test_the_longest_period_bounds_the_work_and_shorter_windows_are_folded_as_far_as_they_reach() -> None:
    steps = np.full(10 * LONGEST, 0.1) + np.random.default_rng(0).gamma(100, 1e-5, 10 * LONGEST)
    steps[7 :: 2 * LONGEST] += 5.0
    assert every_nth(steps) is None
    steps[7::LONGEST] += 5.0
    assert every_nth(steps) == (LONGEST, 7)
