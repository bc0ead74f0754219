from dataclasses import replace

import numpy as np
import pytest

from vtune.analysis.costs import Costs
from vtune.analysis.draws import SlowShare
from vtune.analysis.twin import replay


def costs(
    *,
    load: float | np.ndarray = 1.0,
    own: float | np.ndarray = 0.1,
    workers: int = 4,
    prefetch: int = 2,
    delivery: float = 0.0,
    dispatch: float = 0.0,
    rows: int = 60,
) -> Costs:
    load_s, own_s = np.broadcast_to(load, (rows,)).astype(float), np.broadcast_to(own, (rows,)).astype(float)
    return Costs(
        workers=workers,
        delivering=workers,
        prefetch=prefetch,
        samples_per_batch=2.0,
        load_s=load_s,
        cpu_s=load_s / 2,
        dispatch_s=np.full(rows, dispatch),
        own_s=own_s,
        others_s=np.zeros(rows),
        delivery_s=np.full(rows, delivery),
        waited=np.ones(rows, bool),
        kind=np.zeros(rows, int),
        load_kind=np.zeros(rows, int),
        load_pattern=np.zeros(1, int),
        pattern=np.zeros(1, int),
    )


def gamma(mean: float, cv: float, rows: int = 400, seed: int = 1) -> np.ndarray:
    drawn = np.random.default_rng(seed).gamma(1 / cv**2, cv**2, rows)
    return drawn / drawn.mean() * mean


def longest_queue_first(load: np.ndarray, own_s: float, workers: int, prefetch: int) -> float:
    """The schedule once more, batch after batch and in plain Python."""
    rng = np.random.default_rng(5)
    finished, there, ended, ends = [0.0] * workers, [0.0] * (workers * prefetch), 0.0, []
    for j in range(40_000):
        finished[j % workers] = max(finished[j % workers], there[j % len(there)]) + rng.choice(load)
        there[j % len(there)] = max(finished[j % workers], ended)
        ended = there[j % len(there)] + own_s
        ends.append(ended)
    return (len(ends) - 1000) / (ends[-1] - ends[999])


def test_workers_that_are_slower_than_the_training_set_the_pace() -> None:
    assert replay(costs(load=1.0, own=0.1)).rate == pytest.approx(4.0, rel=1e-3)
    assert replay(costs(load=1.0, own=0.1, dispatch=0.25)).rate == pytest.approx(4 / 1.25, rel=1e-3)


def test_a_training_that_is_slower_than_its_workers_sets_the_pace() -> None:
    assert replay(costs(load=1.0, own=0.5)).rate == pytest.approx(2.0, rel=1e-3)
    assert replay(costs(load=1.0, own=0.5, delivery=0.1)).rate == pytest.approx(1 / 0.6, rel=1e-3)


def test_batches_that_lie_ready_come_faster_than_those_that_are_waited_for() -> None:
    half = np.arange(60) % 2 == 0
    seen = replace(costs(load=1.0, own=0.5), delivery_s=np.where(half, 0.2, 0.05), waited=half)
    assert replay(seen).rate == pytest.approx(1 / 0.55, rel=1e-3)
    assert replay(seen, workers=1).rate == pytest.approx(1.0, rel=1e-3)
    assert replay(replace(seen, own_s=np.zeros(60)), workers=2, prefetch=1).rate == pytest.approx(2 / 1.2, rel=0.01)


def test_without_workers_loading_and_computing_take_turns() -> None:
    assert replay(costs(load=0.3, own=0.2, workers=0)).rate == pytest.approx(2.0)
    assert replay(costs(load=0.3, own=0.2), workers=0).rate == pytest.approx(2.0)


@pytest.mark.parametrize(("workers", "prefetch"), [(2, 1), (8, 2), (8, 4)])
def test_varying_batches_wait_for_each_other_as_in_a_long_run(workers: int, prefetch: int) -> None:
    load = gamma(1.0, 0.5)
    found = replay(costs(load=load, own=0.01, rows=400, workers=workers, prefetch=prefetch))
    assert found.rate == pytest.approx(longest_queue_first(load, 0.01, workers, prefetch), rel=0.015)
    assert found.rate < 0.97 * workers
    low, high = found.interval
    assert low < found.rate < high


def test_a_training_that_runs_ahead_of_its_device_loads_beside_it() -> None:
    ahead = replace(costs(load=0.3, own=0.5, workers=0), launch_s=np.full(60, 0.01))
    assert replay(ahead).rate == pytest.approx(2.0, rel=1e-3)
    slow = replace(costs(load=0.8, own=0.5, workers=0), launch_s=np.full(60, 0.01))
    assert replay(slow).rate == pytest.approx(1 / 0.81, rel=1e-3)
    with_workers = replace(costs(load=1.0, own=0.5, workers=1), launch_s=np.full(60, 0.01))
    assert replay(with_workers).rate == pytest.approx(1.0, rel=1e-3)
    assert replay(with_workers, workers=3).rate == pytest.approx(2.0, rel=1e-3)


def test_one_trial_tells_other_workers_and_queues() -> None:
    seen = costs(load=gamma(1.0, 0.3), own=0.05, rows=400, workers=4, prefetch=2)
    for workers, prefetch in ((1, 2), (8, 1), (12, 4)):
        truth = longest_queue_first(seen.load_s, 0.05, workers, prefetch)
        assert replay(seen, workers=workers, prefetch=prefetch).rate == pytest.approx(truth, rel=0.015)


def test_batches_in_any_order_are_not_held_up_by_a_slow_one() -> None:
    load = gamma(1.0, 0.1)
    load[::50] *= 10
    seen = costs(load=load, own=0.01, rows=400, workers=8)
    kept, free = replay(seen).rate, replay(seen, in_order=False).rate
    # Nothing but the workers themselves is a limit then.
    assert free == pytest.approx(8 / load.mean(), rel=0.03)
    assert kept < 0.75 * free


def test_work_of_every_nth_step_counts_as_often_as_it_comes() -> None:
    own = np.full(52, 1.0)
    own[::16] = 5.0  # four of them fell into a window of 52 steps
    kind = np.zeros(52, int)
    kind[::16] = 1
    pattern = np.asarray([1] + [0] * 15)
    seen = replace(costs(load=0.1, own=own, rows=52), kind=kind, pattern=pattern)
    assert seen.mean_own_s == pytest.approx((15 + 5) / 16)
    assert replay(seen).rate == pytest.approx(16 / 20, rel=1e-3)


def test_a_period_that_is_longer_than_the_replay_makes_the_replay_longer() -> None:
    # An epoch's worth of micro-batches in one step: 3000 of them, of which the last is dear.
    kind = np.append(np.zeros(2999, int), 1)
    own = np.where(kind == 1, 1.0, 0.1)
    seen = replace(costs(load=0.01, own=own, rows=3000), kind=kind, pattern=kind)
    assert replay(seen, replicates=3).rate == pytest.approx(3000 / (2999 * 0.1 + 1), rel=1e-3)


def test_slow_batches_that_other_trials_saw_slow_this_one_down() -> None:
    seen = costs(load=gamma(1.0, 0.1, rows=60), own=0.01, rows=60, workers=8)
    quiet = replay(seen)
    warned = replay(seen, slow=SlowShare(batches=1000, ratios=(10.0,) * 20))
    assert warned.rate < 0.7 * quiet.rate
    truth = longest_queue_first(np.append(np.tile(seen.load_s, 49), [10.0] * 60), 0.01, 8, 2)
    assert warned.interval[0] < truth < warned.interval[1]


def test_slow_spells_widen_the_interval_where_single_batches_would_not() -> None:
    spells = np.where(np.arange(400) // 50 % 2 == 0, 1.0, 2.0)
    mixed = np.random.default_rng(3).permutation(spells)
    of_spells, of_mixed = (replay(costs(load=0.01, own=own, rows=400)) for own in (spells, mixed))
    assert of_spells.above > 3 * of_mixed.above and of_spells.below > 3 * of_mixed.below


def test_no_interval_is_narrower_than_launches_differ() -> None:
    low, high = replay(costs()).interval
    assert high / low == pytest.approx(np.exp(2 * 1.96 * 0.015), rel=1e-3)


def test_a_pattern_is_kept_also_where_neighbouring_costs_move_together() -> None:
    drift = 1 + 0.1 * np.sin(np.arange(80) / 6)
    load = np.where(np.arange(80) % 4 == 0, 10.0, 1.0) * drift
    seen = replace(costs(load=load, own=0.01, rows=80), load_kind=np.arange(80) % 4, load_pattern=np.arange(4))
    # The slow worker is waited for in every round.
    assert replay(seen).rate == pytest.approx(0.4, rel=0.05)
