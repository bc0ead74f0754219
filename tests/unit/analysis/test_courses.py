"""Costs over the time of a window: correlation times, trends, and how much of them comes through to the rate."""

from dataclasses import replace

import numpy as np
import pytest

from vtune.analysis.costs import Costs
from vtune.analysis.courses import courses_of, lasting, sampling_error


def costs(*, load: float | np.ndarray = 1.0, own: float | np.ndarray = 0.1, workers: int = 4, rows: int = 60) -> Costs:
    load_s, own_s = np.broadcast_to(load, (rows,)).astype(float), np.broadcast_to(own, (rows,)).astype(float)
    return Costs(
        workers=workers,
        delivering=workers,
        prefetch=2,
        samples_per_batch=2.0,
        load_s=load_s,
        cpu_s=load_s / 2,
        dispatch_s=np.zeros(rows),
        own_s=own_s,
        others_s=np.zeros(rows),
        delivery_s=np.zeros(rows),
        waited=np.ones(rows, bool),
        kind=np.zeros(rows, int),
        load_kind=np.zeros(rows, int),
        load_pattern=np.zeros(1, int),
        pattern=np.zeros(1, int),
    )


def following(follows: float, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found, value = np.empty(count), float(rng.standard_normal())
    for at, kick in enumerate(rng.standard_normal(count)):
        value = follows * value + np.sqrt(1 - follows**2) * kick
        found[at] = value
    return found


def test_costs_that_are_each_a_chance_of_their_own_have_no_spells() -> None:
    lasts = [lasting(np.random.default_rng(seed).standard_normal(600)) for seed in range(20)]
    assert np.median(lasts) == pytest.approx(1.0, abs=0.3) and max(lasts) < 2.5


@pytest.mark.parametrize("follows", [0.6, 0.9])
def test_a_correlation_time_is_found_where_the_window_holds_many(follows: float) -> None:
    true = (1 + follows) / (1 - follows)
    found = np.median([lasting(following(follows, 2000, seed)) for seed in range(20)])
    assert found == pytest.approx(true, rel=0.35)


def test_spells_as_long_as_the_window_are_never_taken_for_many() -> None:
    lasts = [lasting(following(0.98, 600, seed)) for seed in range(40)]
    assert sum(600 / one >= 20 for one in lasts) <= 2


def test_a_trend_is_told_with_its_size_and_spells_are_none() -> None:
    rng = np.random.default_rng(1)
    rows = 600
    rising = (1 + 0.1 * np.linspace(-0.5, 0.5, rows)) * rng.normal(1, 0.05, rows)
    (own, _) = courses_of(costs(own=0.1 * rising, load=0.01, rows=rows))
    change, error = own.change
    assert change == pytest.approx(0.1, abs=0.02) and change > 4 * error
    shown = 0
    for seed in range(20):
        spell = np.exp(0.1 * following(0.9, rows, seed))
        (own, _) = courses_of(costs(own=0.1 * spell, load=0.01, rows=rows))
        change, error = own.change
        shown += abs(change) > 2.6 * error
    assert shown <= 2


def test_only_the_slower_side_comes_through_to_the_rate() -> None:
    own, load = courses_of(costs(own=0.1, load=0.1, workers=4))
    assert own.weight == pytest.approx(1.0, abs=0.01) and load.weight < 0.01
    own, load = courses_of(costs(own=0.1, load=1.0, workers=4))
    assert own.weight < 0.1 and load.weight == pytest.approx(1.0, abs=0.05)
    own, load = courses_of(costs(own=0.1, load=0.4, workers=4))
    assert own.weight > 0.5 and load.weight > 0.5
    alone = replace(costs(own=0.1, load=0.3), workers=0, delivering=0)
    own, load = courses_of(alone)
    assert own.weight + load.weight == pytest.approx(1.0, abs=0.1) and load.weight > own.weight


def test_an_interval_is_widened_by_spells_and_by_nothing_else() -> None:
    rows = 600
    own = 0.1 * np.random.default_rng(3).normal(1, 0.1, rows)
    assert sampling_error(costs(own=own, load=0.01, rows=rows)) == 0.0
    spells = 0.1 * np.exp(0.2 * following(0.95, rows, 4))
    # 39 batches of a spell, so 15 spells of a spread of 20 %.
    assert 0.06 < sampling_error(costs(own=spells, load=0.01, rows=rows)) < 0.3


def test_kinds_that_come_in_a_pattern_are_no_course() -> None:
    rows = 400
    kind = (np.arange(rows) % 10 == 0).astype(int)
    found = replace(costs(own=np.where(kind == 1, 1.0, 0.1), load=0.01, rows=rows), kind=kind, pattern=kind[:10])
    own, _ = courses_of(found)
    assert own.ratios.std() == pytest.approx(0.0, abs=1e-9)
