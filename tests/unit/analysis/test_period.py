import numpy as np

from vtune.analysis.period import every_nth

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
