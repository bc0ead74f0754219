"""Fronts of throughput against memory, checked by hand."""

from __future__ import annotations

from dataclasses import replace

from support.choices import choose
from support.studies import a_trial
from vtune.analysis.search.fronts import front, fronts
from vtune.domain.experiment import Limit, Limits
from vtune.domain.record import TrialRecord

GIB = 2**30


def trial(number: int, rate: float, ram: float, vram: float | None = None, **fields: object) -> TrialRecord:
    record = a_trial(number, rate, workers=number, asked={} if number == 1 else {"workers": number}, batch=2)
    sizes = {"ram_peak_bytes": int(ram * GIB), "vram_peak_bytes": None if vram is None else int(vram * GIB)}
    return replace(record, measurement=replace(record.measurement, **{**sizes, **fields}))


def test_a_trial_is_on_the_front_where_none_is_faster_with_no_more_memory() -> None:
    records = [trial(1, 10, 1), trial(2, 20, 2), trial(3, 15, 3), trial(4, 30, 4)]
    found = front(records, choose(records), "RAM")
    assert found.trials == (1, 2, 4)
    assert found.needs_bytes == {1: GIB, 2: 2 * GIB, 4: 4 * GIB}


def test_what_is_faster_by_no_more_than_counts_as_equal_is_not_worth_its_memory() -> None:
    records = [trial(1, 10, 1), trial(2, 20, 2), trial(3, 20.3, 3)]
    assert front(records, choose(records), "RAM").trials == (1, 2)
    # Nor are some megabytes less, which another launch would not show, worth a slower one.
    near = [trial(1, 10, 1.0), trial(2, 20, 1.01)]
    assert front(near, choose(near), "RAM").trials == (2,)


def test_memory_counts_as_limits_see_it() -> None:
    records = [trial(1, 10, 1, 1), trial(2, 20, 2, 2, ram_projected_bytes=9 * GIB, vram_validation_peak_bytes=5 * GIB)]
    choice = choose(records)
    assert front(records, choice, "RAM").needs_bytes[2] == 9 * GIB
    assert front(records, choice, "VRAM").needs_bytes[2] == 5 * GIB


def test_a_memory_that_nobody_measured_and_one_trial_alone_make_no_front() -> None:
    records = [trial(1, 10, 1), trial(2, 20, 2)]
    assert [one.memory for one in fronts(records, choose(records))] == ["RAM"]
    assert fronts(records[:1], choose(records[:1])) == () and fronts([], choose([])) == ()


def test_what_is_over_a_limit_or_failed_is_not_offered() -> None:
    records = [trial(1, 10, 1), trial(2, 20, 2), trial(3, 40, 8)]
    choice = choose(records, limits=Limits(ram=Limit(bytes=4 * GIB, text="4GiB")))
    assert front(records, choice, "RAM").trials == (1, 2)


def test_launches_of_the_same_settings_are_one_by_their_middle_rate_and_their_largest_memory() -> None:
    again = [replace(trial(2, rate, ram), trial=number) for number, rate, ram in ((3, 28, 2.5), (4, 22, 2.2))]
    records = [trial(1, 10, 1), trial(2, 20, 2), *again, replace(trial(5, 25, 4), trial=5)]
    # The middle of 20, 22 and 28 is 22: 25 with more memory is faster than that.
    found = front(records, choose(records), "RAM")
    assert found.trials[0] == 1 and found.trials[-1] == 5 and len(found.trials) == 3
    assert found.needs_bytes[found.trials[1]] == int(2.5 * GIB)


def test_what_was_chosen_for_asking_least_stands_on_the_front_for_what_equals_it() -> None:
    MIB = 2**20
    records = [trial(1, 10, 0.1), trial(2, 30, 0.2), trial(3, 30.1, 0.2)]
    records = [
        replace(one, measurement=replace(one.measurement, ram_peak_bytes=int(need * MIB)))
        for one, need in zip(records, (241.0, 271.9, 271.8), strict=True)
    ]
    choice = replace(choose(records), best=records[1])
    assert front(records, choice, "RAM").trials == (1, 2)
    # Also where the equal takes a few megabytes less.
    less = [*records[:2], replace(records[2], measurement=replace(records[2].measurement, ram_peak_bytes=264 * MIB))]
    assert front(less, choice, "RAM").trials == (1, 2)


def test_what_needs_some_percent_less_is_on_the_front_although_slower() -> None:
    MIB = 2**20
    records = [
        replace(one, measurement=replace(one.measurement, ram_peak_bytes=need * MIB))
        for one, need in ((trial(1, 10, 1), 241), (trial(2, 20, 1), 251), (trial(3, 30, 1), 272))
    ]
    assert front(records, choose(records), "RAM").trials == (1, 2, 3)
