"""Every verdict with values that pass, that fail, and that must not be taken for either."""

from __future__ import annotations

import random

from vtune.selftest import verdicts

MIB = 2**20
GIB = 2**30


def test_clocks_of_one_pace_pass_and_a_slow_one_is_named_with_its_pace() -> None:
    assert verdicts.clocks({"the training's clock": 1.0001, "wall time": 0.9996}, 0.0).status == "passed"
    slow = verdicts.clocks({"the training's clock": 0.9, "wall time": 1.0}, 0.0)
    assert slow.status == "failed"
    assert "the training's clock ran at 0.9000 s" in slow.sentence and "expected 1 within 0.5%" in slow.sentence


def test_a_clock_of_the_right_pace_with_another_zero_is_another_clock() -> None:
    other = verdicts.clocks({"the training's clock": 1.0}, 3600.0)
    assert other.status == "failed" and "3600.000 s outside" in other.sentence


def test_memory_within_five_percent_passes_and_pages_that_count_twice_do_not() -> None:
    children = [(96 * MIB, 96 * MIB)] * 3
    assert verdicts.tree_memory(247 * MIB, 240 * MIB, children).status == "passed"
    twice = verdicts.tree_memory(480 * MIB, 240 * MIB, children)
    assert twice.status == "failed"
    assert "expected 240 MiB" in twice.sentence and "seen 480 MiB: +100.0%" in twice.sentence


def test_a_child_whose_resident_size_is_wrong_is_named() -> None:
    wrong = verdicts.tree_memory(240 * MIB, 240 * MIB, [(96 * MIB, 96 * MIB), (192 * MIB, 96 * MIB)])
    assert wrong.status == "failed" and "child 1" in wrong.sentence


def test_memory_that_nobody_saw_is_a_failure_and_not_zero() -> None:
    assert verdicts.tree_memory(None, 240 * MIB, ()).status == "failed"
    assert verdicts.mapped_file(None, (), 192 * MIB).status == "failed"


def test_a_mapped_file_that_counts_as_memory_of_each_reader_is_red() -> None:
    assert verdicts.mapped_file(MIB, [192 * MIB] * 3, 192 * MIB).status == "passed"
    counted = verdicts.mapped_file(3 * 192 * MIB, [192 * MIB] * 3, 192 * MIB)
    assert counted.status == "failed" and "576 MiB more" in counted.sentence


def test_a_mapped_file_that_was_not_read_proves_nothing() -> None:
    assert verdicts.mapped_file(0, [192 * MIB, 0, 192 * MIB], 192 * MIB).status == "failed"


def test_rates_are_held_against_the_trainings_own_count() -> None:
    assert verdicts.rates(100.0, 101.0, 0.50, 0.51, 100.0).status == "passed"
    off = verdicts.rates(110.0, 100.0, 0.50, 0.50, 100.0)
    assert off.status == "failed" and "+10.00%" in off.sentence
    waiting = verdicts.rates(100.0, 100.0, 0.10, 0.50, 100.0)
    assert waiting.status == "failed" and "waiting 10.0%, counted 50.0%" in waiting.sentence
    assert verdicts.rates(None, 100.0, None, None, 100.0).status == "failed"


def test_a_worker_without_batches_is_named_and_one_without_memory_is_missed() -> None:
    assert verdicts.workers(2, 2, {0: 30, 1: 30}, {0: 28, 1: 28}).status == "passed"
    unseen = verdicts.workers(2, 2, {0: 30}, {0: 28, 1: 28})
    assert unseen.status == "failed"
    assert "expected the 28 batches of worker 1" in unseen.sentence and "seen 0" in unseen.sentence
    assert "expected 2 workers" in verdicts.workers(2, 1, {0: 30, 1: 30}, {0: 28, 1: 28}).sentence


def blocks(added: float, noise: float) -> tuple[list[float], list[float]]:
    dice = random.Random(1)
    plain = [0.01 * (1 + dice.gauss(0, noise)) for _ in range(40)]
    return plain, [0.01 * (1 + added) * (1 + dice.gauss(0, noise)) for _ in range(40)]


def test_instrumentation_passes_below_one_percent_and_fails_above_it() -> None:
    assert verdicts.instrumentation(*blocks(0.003, 0.002), 0.01, 1e-5).status == "passed"
    assert verdicts.instrumentation(*blocks(0.05, 0.002), 0.01, 1e-5).status == "failed"


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """The truth lies just outside of what is allowed: a pass is a wrong one, at most 2.5 of 100."""
    dice, wrong, tries = random.Random(7), 0, 1500
    for _ in range(tries):
        plain = [0.01] * 40
        watched = [0.01 * (1 + verdicts.INSTRUMENTATION + dice.gauss(0, 0.02)) for _ in plain]
        wrong += verdicts.instrumentation(plain, watched, 0.01, 1e-5).status == "passed"
    # 37 are expected; with the spread of the kept alone there would be 110.
    assert wrong < 60


def test_an_interval_that_holds_the_limit_is_neither_pass_nor_fail() -> None:
    noisy = verdicts.instrumentation(*blocks(0.008, 0.10), 0.01, 1e-5)
    assert noisy.status == "inconclusive" and "95 %" in noisy.sentence


def test_a_neighbour_in_a_few_blocks_does_not_count_as_our_cost() -> None:
    plain, watched = blocks(0.003, 0.001)
    watched[3] *= 4
    watched[17] *= 3
    assert verdicts.instrumentation(plain, watched, 0.01, 1e-5).status == "passed"


def test_a_short_window_that_tells_another_rate_than_a_long_one_is_red() -> None:
    assert verdicts.short_and_long((101.0, 99.0), 100.0, (60, 600)).status == "passed"
    assert verdicts.short_and_long((150.0, 148.0), 100.0, (60, 600)).status == "failed"
    assert verdicts.short_and_long((104.0, 105.0), 100.0, (60, 600)).status == "failed"
    assert verdicts.short_and_long((None, 100.0), 100.0, (60, 600)).status == "failed"
    assert verdicts.short_and_long((100.0, 100.0), None, (60, 600)).status == "failed"


def test_a_slow_moment_in_one_of_the_short_windows_is_not_the_window() -> None:
    said = verdicts.short_and_long((100.5, 88.0), 100.0, (60, 600))
    assert said.status == "passed" and "+0.50%, -12.00%" in said.sentence


def test_rates_of_different_minutes_decide_nothing_while_neighbours_work() -> None:
    assert verdicts.short_and_long((94.0, 95.0), 100.0, (60, 600), 1.7).status == "inconclusive"
    assert verdicts.short_and_long((99.0, 99.0), 100.0, (60, 600), 1.7).status == "passed"
    assert verdicts.short_and_long((94.0, 95.0), 100.0, (60, 600), 0.1).status == "failed"


def test_what_outlives_a_killed_training_is_counted() -> None:
    assert verdicts.killed(1.2, {"processes": 0}).status == "passed"
    assert "2 processes" in verdicts.killed(1.2, {"processes": 2, "temporary folders": 0}).sentence
    assert verdicts.killed(12.0, {"processes": 0}).status == "failed"
    assert verdicts.killed(None, {}).status == "failed"


def test_a_sampler_that_takes_more_than_one_percent_of_a_core_is_red() -> None:
    assert verdicts.sampler_cost(0.004, 3).status == "passed"
    assert verdicts.sampler_cost(0.02, 3).status == "failed"
    assert verdicts.sampler_cost(None, 3).status == "failed"
    assert verdicts.sampler_cost(0.02, 3, 0.1).status == "failed"
    assert verdicts.sampler_cost(0.02, 3, 1.2).status == "inconclusive"
