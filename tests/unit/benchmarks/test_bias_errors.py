"""The benchmark of bias: a probe's error against the long runs beside it, and its mean over trainings."""

from __future__ import annotations

import math

import pytest

from bias.bias_errors import Launch, error_of, mean_error, rate_beside, turns


def long_run(rate: float) -> Launch:
    return Launch(rate)


def probe(rate: float, low: float | None = None, high: float | None = None) -> Launch:
    return Launch(rate, is_probe=True, ci95=None if low is None or high is None else (low, high))


def test_each_pair_is_turned_round_after_the_one_before() -> None:
    assert turns(1) == [False, True]
    assert turns(3) == [False, True, True, False, False, True]


def test_a_probe_is_held_against_the_nearest_long_runs_on_both_sides() -> None:
    launches = [long_run(100.0), long_run(90.0), probe(1.0), probe(1.0), long_run(110.0), long_run(500.0)]
    assert rate_beside(launches, 2) == rate_beside(launches, 3) == 100.0
    assert rate_beside([long_run(90.0), probe(1.0)], 1) == 90.0
    assert rate_beside([probe(1.0), long_run(70.0)], 0) == 70.0


def test_a_machine_that_slows_down_evenly_is_no_error() -> None:
    found = error_of([long_run(103.0), probe(101.0), probe(99.0), long_run(97.0)])
    assert found.mean == pytest.approx(0.0)
    assert found.by_probe == pytest.approx((0.01, -0.01))


def test_the_spread_is_that_of_both_kinds_of_launches() -> None:
    found = error_of([long_run(100.0), probe(98.0), probe(98.0), long_run(104.0)])
    assert found.mean == pytest.approx(98 / 102 - 1)
    # Of two values half their distance is the standard error.
    assert found.spread == pytest.approx(math.log(1.04) / 2)
    assert error_of([long_run(100.0), probe(98.0)]).spread is None


def test_an_interval_covers_where_it_holds_the_rate_of_the_long_runs() -> None:
    launches = [long_run(100.0), probe(98.0, 97.0, 99.9), probe(98.0, 95.0, 101.0), probe(98.0), long_run(100.0)]
    assert error_of(launches).covered == 1


def test_the_mean_over_trainings_has_students_interval() -> None:
    found = mean_error([-0.01, 0.0, 0.01])
    # Two degrees of freedom: 4.303 standard errors of 0.01 / √3.
    assert (found.mean, found.low, found.high, found.cells) == pytest.approx((0.0, -0.02484, 0.02484, 3), abs=1e-5)
    assert mean_error([0.02]).low is None
