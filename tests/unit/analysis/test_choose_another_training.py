"""What changes the training wins only where its gain over the best that does not is shown."""

from dataclasses import replace
from typing import Any

import pytest

from support.choices import choose
from support.studies import a_trial
from vtune.domain.choice import Choice
from vtune.domain.experiment import KnobBinding
from vtune.domain.record import TrialRecord

BASELINE = a_trial(1, 10.0)
WORKERS = a_trial(2, 20.0, asked={"workers": 2})


def larger(rate: float, trial: int = 3, **fields: Any) -> TrialRecord:
    """Four times the batch on top of two workers."""
    return a_trial(trial, rate, asked={"workers": 2, "batch_size": 8}, batch=8, **fields)


def picked(choice: Choice) -> tuple[int | None, int | None]:
    found = choice.best, choice.best_same
    return found[0] and found[0].trial, found[1] and found[1].trial


def test_a_larger_batch_does_not_ride_along_on_the_gain_of_workers() -> None:
    """The demo: 1.05× of the workers' trial, which two launches do not show, and twice the user's own."""
    choice = choose([BASELINE, WORKERS, larger(21.0)])
    assert picked(choice) == (2, 2) and choice.tie == (3,)
    lost = next(one for one in choice.lost if one.trial == 3)
    assert lost.reason == "tie" and choice.over_same[3].value == pytest.approx(1.05)


@pytest.mark.parametrize("rate", [20.3, 20.8, 21.0])
def test_nothing_is_lost_by_the_larger_batch_being_left(rate: float) -> None:
    assert picked(choose([BASELINE, WORKERS, larger(rate)])) == (2, 2)


def test_where_it_is_shown_it_wins_and_the_best_of_the_same_training_stands_beside_it() -> None:
    choice = choose([BASELINE, WORKERS, larger(24.0)])
    assert picked(choice) == (3, 2) and choice.other_trainings == {3}
    assert choice.over_same[3].value == pytest.approx(1.2) and choice.over_same[3].shown_faster


def test_it_has_to_beat_the_fastest_and_not_only_the_least_of_equals() -> None:
    """Trial 4 needs less than trial 2 and is as good as it."""
    gentle = a_trial(4, 19.7, asked={"workers": 1, "prefetch_factor": 4}, measured={"ram_peak_bytes": 10**8})
    heavy = replace(WORKERS, measurement=replace(WORKERS.measurement, ram_peak_bytes=10**9))
    choice = choose([BASELINE, heavy, gentle, larger(21.0)])
    assert picked(choice) == (4, 4)


def test_the_same_effective_batch_by_accumulation_is_the_same_training() -> None:
    halves = a_trial(3, 21.0, asked={"workers": 2, "batch_size": 1, "accumulate_steps": 2}, batch=2)
    choice = choose([BASELINE, WORKERS, halves])
    assert choice.other_trainings == frozenset() and picked(choice) == (3, 3)


def test_where_the_effective_batch_is_not_known_what_was_set_tells() -> None:
    unknown = [replace(one, measurement=replace(one.measurement, effective_batch=None)) for one in (BASELINE, WORKERS)]
    wider = larger(21.0, measured={"effective_batch": None})
    assert picked(choose([*unknown, wider])) == (2, 2)
    assert choose([*unknown, wider]).other_trainings == {3}


@pytest.mark.parametrize(
    ("asked", "is_another"),
    [({"threads": 1}, True), ({"precision": "bf16"}, True), ({"in_order": False}, True), ({"pin_memory": True}, False)],
)
def test_a_knob_that_is_not_in_class_same_makes_another_training(asked: dict[str, Any], is_another: bool) -> None:
    turned = a_trial(3, 21.0, asked={"workers": 2, **asked})
    choice = choose([BASELINE, WORKERS, turned])
    assert (3 in choice.other_trainings) is is_another
    assert picked(choice) == ((2, 2) if is_another else (3, 3))


@pytest.mark.parametrize(("numerics", "best"), [("SAME", 3), ("CLOSE", 2), (None, 2)])
def test_of_the_users_own_knobs_the_users_word_counts(numerics: Any, best: int) -> None:
    mine = (KnobBinding(name="cache_size", key="data.cache", numerics=numerics),)
    turned = a_trial(3, 21.0, asked={"workers": 2, "cache_size": 64})
    assert picked(choose([BASELINE, WORKERS, turned], knobs=mine))[0] == best


def test_a_step_that_a_walk_rolled_back_is_not_adopted_by_the_number_in_the_middle() -> None:
    more = a_trial(3, 21.0, asked={"workers": 4})
    assert picked(choose([BASELINE, WORKERS, more])) == (3, 3)
    assert picked(choose([BASELINE, WORKERS, more], rolled_back=(3,))) == (2, 2)
    shown = a_trial(3, 24.0, asked={"workers": 4})
    assert picked(choose([BASELINE, WORKERS, shown], rolled_back=(3,))) == (3, 3)


def test_where_only_another_training_fits_it_is_chosen_by_its_rate() -> None:
    choice = choose([replace(BASELINE, measurement=replace(BASELINE.measurement, alloc_retries=0)), larger(21.0, 2)])
    assert picked(choice) == (2, 1)
