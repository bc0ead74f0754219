"""What a race of two recorded trials would be, before anything is launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from support.studies import a_trial
from vtune.analysis.race import EXTRA_ROUNDS
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.errors import UsageError
from vtune.strategies.race import Race
from vtune.strategies.race_plan import RacePlan, plan_race

FOUR = {"workers": 4}
A, B = a_trial(1, 10.0), a_trial(2, 10.3, asked=FOUR)


def plan(records: Sequence[TrialRecord], **asked: Any) -> RacePlan:
    return plan_race(records, A, B, **asked)


def launches(
    race: Race, records: Sequence[TrialRecord], ratio: float, most: int = 100, **measured: Any
) -> list[TrialRecord]:
    """The journal with `most` more of its launches, as long as it asks for some."""
    history = list(records)
    for _ in range(most):
        proposal = race.propose(history)
        if proposal is None:
            break
        rate = 10.0 * (ratio if proposal.settings else 1.0)
        number, asked = len(history) + 1, dict(proposal.settings)
        history.append(replace(a_trial(number, rate, asked=asked, measured=measured), race=proposal.race))
    return history


def test_the_most_that_a_race_may_launch_holds_also_where_rounds_are_replaced() -> None:
    asked = plan([A, B], rounds=3)
    assert (asked.least_launches, asked.launches) == (4, 2 * (3 + EXTRA_ROUNDS))
    history: list[TrialRecord] = [A, B]
    while (proposal := asked.race.propose(history)) is not None:
        assert proposal.race is not None
        cold = proposal.race.round % 2 == 1 and bool(proposal.settings)
        rate, cache = 10.0 + 0.1 * cold, "cold" if cold else "warm"
        record = a_trial(len(history) + 1, rate, asked=dict(proposal.settings), measured={"cache": cache})
        history.append(replace(record, race=proposal.race))
        said = proposal.reason
        assert f"round {proposal.race.round} of 3" in said if proposal.race.round <= 3 else "in place of one" in said
    assert len(history) - 2 == asked.launches and plan(history, rounds=3).launches == 0


def test_what_is_there_of_a_race_is_not_launched_again() -> None:
    race = plan([A, B]).race
    begun = launches(race, [A, B], 1.0, most=5)
    gone_on = plan(begun)
    assert gone_on.race.id == race.id and gone_on.standing.rounds == 2 and len(gone_on.legs) == 5
    assert (gone_on.least_launches, gone_on.launches) == (1, 15)


def test_a_race_that_was_decided_is_not_run_again_unless_asked_and_then_the_new_one_is_gone_on_with() -> None:
    first = launches(plan([A, B]).race, [A, B], 1.2)
    decided = plan(first)
    assert decided.standing.decided and decided.launches == decided.least_launches == 0
    assert [leg.trial for leg in decided.legs] == [record.trial for record in first[2:]]
    again = plan(first, again=True)
    assert again.race.id != decided.race.id and again.legs == () and again.launches == 20
    begun = launches(again.race, first, 1.2, most=1)
    assert plan(begun).race.id == again.race.id and plan(begun).launches == 19
    assert plan(begun, again=True).race.id not in (decided.race.id, again.race.id)


def test_a_race_of_which_a_launch_was_interrupted_was_begun() -> None:
    again = plan(launches(plan([A, B]).race, [A, B], 1.2), again=True).race
    first = launches(again, [A, B], 1.2, most=1)[-1]
    stopped = [*launches(plan([A, B]).race, [A, B], 1.2), replace(first, trial=90, status=TrialStatus.INTERRUPTED)]
    assert plan(stopped).race.id == again.id and plan(stopped).launches == 20


def test_launches_beyond_doubt_are_not_raced_unless_asked_or_begun() -> None:
    far = a_trial(2, 31.0, asked=FOUR)
    for a, b in ((A, far), (far, A)):
        sure = plan_race([A, far], a, b)
        assert sure.known is not None and sure.launches == 0 and not sure.standing.decided
        assert plan_race([A, far], a, b, again=True).launches == 20
    assert plan([A, B]).known is None
    begun = launches(plan_race([A, far], A, far).race, [A, far], 3.1, most=1)
    assert plan_race(begun, A, far).launches == 19


def test_fewer_rounds_do_not_shorten_a_race_and_a_narrower_zone_goes_on_with_it() -> None:
    tied = launches(plan([A, B]).race, [A, B], 1.013)
    assert plan(tied).launches == 0 and plan(tied, rounds=2).launches == 0
    narrower = plan(tied, delta=0.005, rounds=12)
    assert not narrower.standing.decided and narrower.launches > 0
    proposal = narrower.race.propose(tied)
    assert proposal is not None and proposal.race is not None
    assert (proposal.race.rounds, proposal.race.delta) == (12, 0.005)
    # And whoever asks for less afterwards does not make it what it was not.
    assert narrower.race.rules(tied).rounds == 12
    went_on = launches(narrower.race, tied, 1.013, most=1)
    assert plan(went_on, rounds=2).race.rules(went_on) == narrower.race.rules(tied)


def test_settings_that_are_the_same_or_have_no_rate_are_refused() -> None:
    with pytest.raises(UsageError, match="nothing to race"):
        plan_race([A, B], A, A)
    with pytest.raises(UsageError, match="trial 2 has no rate"):
        plan_race([A, B], A, replace(B, status=TrialStatus.HUNG))
