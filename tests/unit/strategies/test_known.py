"""Which trial of a journal answers what a walk asks, so that nothing is measured twice."""

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any

import pytest

from support.made_up import OWN
from support.studies import a_failure, a_trial
from vtune.domain.advice import Advice
from vtune.domain.compared import Beat
from vtune.domain.experiment import Limit
from vtune.domain.record import Ceiling, TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.strategies.known import Known

GIB = 2**30
FOUR = {"workers": 4}


def known(
    *history: TrialRecord,
    ram_limit_bytes: int | None = None,
    vram_limit: Limit | None = None,
    named: Mapping[str, Any] = OWN,
    leaders: Set[int] = frozenset(),
    already: int = 0,
) -> Known:
    limits = {"ram_limit_bytes": ram_limit_bytes, "vram_limit": vram_limit}
    return Known(history, named=named, leaders=leaders, already=already, **limits)  # type: ignore[arg-type]


def answer(*history: TrialRecord, wanted: Mapping[str, Any] = FOUR, **fields: Any) -> int | None:
    found = known(*history, **fields).answer(wanted, {**OWN, **wanted})
    return None if found is None else found.trial


def four(trial: int, rate: float = 20.0, **fields: Any) -> TrialRecord:
    record = a_trial(trial, rate, asked=FOUR, **fields)
    return replace(record, settings={**OWN, **FOUR})


def test_the_first_that_was_asked_for_it_answers() -> None:
    assert answer(a_trial(1, 10.0), four(2), four(3)) == 2
    assert answer(a_trial(1, 10.0)) is None


def test_asking_for_what_is_set_already_changes_nothing() -> None:
    said_more = replace(four(2), asked={"workers": 4, "prefetch_factor": 2})
    assert answer(said_more) == 2
    assert answer(four(2), wanted={"workers": 4, "prefetch_factor": 2}) == 2
    assert answer(four(2), wanted={"workers": 4, "prefetch_factor": 4}) is None


def test_what_turned_something_else_besides_does_not_answer() -> None:
    besides = replace(four(2), asked={"workers": 4, "threads": 2}, settings={**OWN, **FOUR, "threads": 2})
    assert answer(besides) is None


def test_what_ran_with_it_answers_whatever_it_was_asked_for() -> None:
    """Asked for nothing beside a command that said 4 workers by itself."""
    said_so = replace(four(2), asked=FOUR)
    without = {name: value for name, value in OWN.items() if name != "workers"}
    assert answer(said_so, named=without) == 2
    ran_otherwise = replace(four(2), asked={"prefetch_factor": 2}, settings={**OWN, "workers": 4, "batch_size": 2})
    assert answer(ran_otherwise) is None


@pytest.mark.parametrize(
    "status", [status for status in TrialStatus if status not in (TrialStatus.COMPLETED, TrialStatus.INTERRUPTED)]
)
def test_what_failed_for_good_answers(status: TrialStatus) -> None:
    assert answer(a_failure(2, status, asked=FOUR)) == 2


def test_what_was_refused_for_want_of_room_is_asked_for_again_by_the_next_call() -> None:
    refused = a_failure(2, TrialStatus.REFUSED, asked=FOUR)
    assert answer(refused, already=1) == 2
    assert answer(refused, already=2) is None


def test_what_failed_once_and_ran_another_time_runs() -> None:
    assert answer(a_failure(2, asked=FOUR), four(3)) == 3


def test_what_ran_and_failed_in_a_later_launch_has_failed_unless_it_is_the_users_own() -> None:
    assert answer(four(2), a_failure(3, asked=FOUR), four(4)) == 3
    assert answer(four(2), a_failure(3, TrialStatus.NOT_OBSERVED, asked=FOUR)) == 2
    assert answer(a_trial(1, 10.0), a_failure(2, asked={}), wanted={}) == 1


def test_what_was_interrupted_or_fed_from_memory_says_nothing() -> None:
    assert answer(a_failure(2, TrialStatus.INTERRUPTED, asked=FOUR)) is None
    assert answer(four(2, measured={"ceiling": Ceiling()})) is None


def test_too_few_steps_are_measured_once_more_and_then_are_all_there_is() -> None:
    few = {"steps_measured": 4, "steady": False}
    assert answer(four(2, measured=few)) is None
    assert answer(four(2, measured=few), replace(four(3, measured=few), origin="phase:1:workers")) == 3
    assert answer(four(2, measured=few), four(3)) == 3


def test_a_rate_that_lived_on_stock_is_measured_once_more() -> None:
    fed = {"fed_from_stock": True}
    assert answer(four(2, measured=fed)) is None
    assert answer(replace(four(2, measured=fed), origin="phase:1:workers")) == 2


def test_out_of_a_smaller_ram_than_it_may_have_now_is_tried_again() -> None:
    def died(limit: int, *, is_default: bool = False) -> TrialRecord:
        guard = {"limit_bytes": limit, "is_default": is_default, "by": "watchdog"}
        return replace(
            a_failure(2, TrialStatus.OUT_OF_RAM, asked=FOUR), evidence={"ended_by": "limit", "ram_guard": guard}
        )

    assert answer(died(4 * GIB), ram_limit_bytes=8 * GIB) is None
    assert answer(died(8 * GIB), ram_limit_bytes=8 * GIB) == 2
    assert answer(died(8 * GIB), ram_limit_bytes=4 * GIB) == 2
    # Of the machine's own room nobody knows how much there is today.
    assert answer(died(4 * GIB, is_default=True), ram_limit_bytes=8 * GIB) == 2
    # A limit that was lifted is higher than any.
    assert answer(died(4 * GIB)) is None and answer(died(4 * GIB, is_default=True)) == 2


def test_out_of_a_lower_vram_limit_than_now_is_tried_again() -> None:
    def died(limit: int | None) -> TrialRecord:
        record = a_failure(2, TrialStatus.OUT_OF_VRAM, asked=FOUR)
        guard = {"limit_bytes": limit, "device_bytes": 80 * GIB}
        return replace(record, evidence={"ended_by": "itself", **({"vram_guard": guard} if limit else {})})

    assert answer(died(40 * GIB), vram_limit=Limit(bytes=60 * GIB, text="60GiB")) is None
    assert answer(died(40 * GIB), vram_limit=Limit(fraction=0.9, text="90%")) is None
    assert answer(died(40 * GIB)) is None
    assert answer(died(40 * GIB), vram_limit=Limit(fraction=0.5, text="50%")) == 2
    assert answer(died(40 * GIB), vram_limit=Limit(bytes=30 * GIB, text="30GiB")) == 2
    # The device itself was full, or nobody knows by which limit it ended.
    assert answer(died(None), vram_limit=Limit(bytes=60 * GIB, text="60GiB")) == 2
    assert answer(died(80 * GIB)) == 2


def test_what_failed_for_want_of_effect_and_took_effect_afterwards_runs() -> None:
    invalid = a_failure(3, TrialStatus.INVALID, asked=FOUR)
    assert answer(four(2), invalid) == 3
    assert answer(four(2), invalid, four(4)) == 2


def test_a_flag_that_did_not_reach_the_loader_is_turned_another_way_the_next_time() -> None:
    invalid = a_failure(2, TrialStatus.INVALID, asked=FOUR)
    learnt = "ask again: --workers of the command did not reach the loader, so this study now turns workers from inside"
    assert answer(replace(invalid, diagnosis=replace(invalid.diagnosis, advice=(Advice(learnt),)))) is None
    assert answer(invalid) == 2


def test_a_launch_that_read_its_data_alike_is_looked_for() -> None:
    cold, warm = four(2, measured={"cache": "cold"}), four(5, measured={"cache": "warm"})
    asked = known(cold, four(3, measured={"cache": "warm"}), warm)
    found = asked.answer_read(FOUR, {**OWN, **FOUR}, cache="warm", after=4)
    assert found is not None and found.trial == 3
    assert known(cold).answer_read(FOUR, {**OWN, **FOUR}, cache="warm", after=4) is None
    # Launched for it, and still not alike: there is no third time.
    mixed = four(6, measured={"cache": "mixed"})
    found = known(cold, mixed).answer_read(FOUR, {**OWN, **FOUR}, cache="warm", after=4)
    assert found is not None and found.trial == 6


def test_later_trials_are_not_among_those_that_were_known_by_then() -> None:
    assert [one.trial for one in known(four(2), four(3), four(7)).until(3)] == [2, 3]


def test_what_was_ended_early_is_answered_as_long_as_a_run_can_be_made_with_what_beat_it() -> None:
    beat = Beat(trial=1, ranked_by="samples_per_s", samples_per_s=50.0, at_least=48.0)
    loser = replace(four(2), beaten=beat)
    assert answer(a_trial(1, 50.0), loser, leaders={1}) == 2
    assert answer(a_trial(1, 50.0), loser, leaders={3}) is None
    # Who compares with something else has to see all of it.
    assert answer(a_trial(1, 50.0), loser) is None
    assert answer(a_trial(1, 50.0), loser, four(3), leaders={3}) == 3


@pytest.mark.parametrize("status", [TrialStatus.TOO_SHORT, TrialStatus.NOT_OBSERVED])
def test_what_filled_its_disk_space_is_asked_for_again_by_the_next_call(status: TrialStatus) -> None:
    filled = replace(a_failure(2, status, asked=FOUR), evidence={"ended_by": "disk"})
    assert answer(filled, already=1) == 2
    assert answer(filled, already=2) is None


def test_what_filled_its_disk_space_and_has_a_rate_answers() -> None:
    assert answer(replace(four(2), evidence={"ended_by": "disk"}), already=2) == 2
