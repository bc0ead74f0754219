"""Races over made-up launches: the journal that they fill is all that the strategy knows."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

from support.studies import a_failure, a_trial
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal, TrialStatus
from vtune.journal.records import record_from_json, record_to_json
from vtune.strategies.race import Race

FOUR, EIGHT = {"workers": 4}, {"workers": 8}


def launched(proposal: Proposal, trial: int, rate: float | None, **fields: Any) -> TrialRecord:
    asked = dict(proposal.settings)
    record = a_trial(trial, rate, asked=asked) if rate is not None else a_failure(trial, asked=asked)
    record = replace(record, origin=proposal.origin, reason=proposal.reason, race=proposal.race, **fields)
    # As it is read again: through the journal.
    return record_from_json(json.loads(json.dumps(record_to_json(record))))


def run(race: Race, rates: dict[str, float | None], history: list[TrialRecord], most: int = 100) -> list[TrialRecord]:
    for _ in range(most):
        proposal = race.propose(history)
        if proposal is None:
            return history
        number = len(history) + 1
        rate = rates[json.dumps(dict(proposal.settings))]
        history.append(launched(proposal, number, rate and rate * (1 + 0.002 * (number % 3))))
    return history


def key(settings: dict[str, Any]) -> str:
    return json.dumps(settings)


def test_every_round_launches_all_of_them_in_an_order_of_its_own() -> None:
    race = Race([FOUR, EIGHT], {})
    history = run(race, {key({}): 100, key(FOUR): 101, key(EIGHT): 100.5}, [])
    rounds: dict[int, list[int]] = {}
    for record in history:
        assert record.race is not None and record.origin == "confirm"
        rounds.setdefault(record.race.round, []).append(record.race.contestant)
    assert all(sorted(order) == [0, 1, 2] for order in rounds.values())
    assert len({tuple(order) for order in rounds.values()}) > 1
    standing = race.standing(history)
    assert standing.decided and not standing.won and len(rounds) == standing.rounds <= 8


def test_a_clear_winner_ends_it_early() -> None:
    race = Race([FOUR], {})
    history = run(race, {key({}): 100, key(FOUR): 140}, [])
    assert race.standing(history).won and len(history) <= 6


def test_a_stopped_race_goes_on_with_the_launches_that_are_missing() -> None:
    rates: dict[str, float | None] = {key({}): 100, key(FOUR): 101, key(EIGHT): 99}
    whole = run(Race([FOUR, EIGHT], {}), rates, [])
    for stopped in (1, 2, 5):
        again = run(Race([FOUR, EIGHT], {}), rates, list(whole[:stopped]))
        assert [one.race for one in again] == [one.race for one in whole]


def test_an_interrupted_launch_is_run_again() -> None:
    race = Race([FOUR], {})
    first = race.propose([])
    assert first is not None
    history = [launched(first, 1, 100.0, status=TrialStatus.INTERRUPTED)]
    assert race.propose(history) == first


def test_trials_that_were_launched_for_something_else_are_no_launches_of_the_race() -> None:
    before = [a_trial(1, 100.0), a_trial(2, 500.0, asked=FOUR)]
    race = Race([FOUR], {})
    other = run(Race([FOUR], {}, seed=1), {key({}): 100, key(FOUR): 300}, list(before))
    assert race.standing(other).rounds == 0 and race.propose(other) is not None
    assert race.id != Race([FOUR], {}, seed=1).id != Race([EIGHT], {}).id


def test_what_fails_is_launched_no_more() -> None:
    race = Race([FOUR, EIGHT], {})
    history = run(race, {key({}): 100, key(FOUR): 101, key(EIGHT): None}, [])
    launches = Counter(record.race.contestant for record in history if record.race is not None)
    assert launches[2] == 1 and launches[0] == launches[1] > 1 and race.standing(history).out == {2: "failed"}


def test_without_a_baseline_that_runs_there_is_no_race() -> None:
    race = Race([FOUR], {})
    history = run(race, {key({}): None, key(FOUR): 100}, [])
    assert len(history) <= 2 and race.standing(history).decided and not race.standing(history).won


def test_what_is_shown_slower_is_launched_no_more_and_the_others_go_on() -> None:
    race = Race([FOUR, EIGHT], {})
    history = run(race, {key({}): 100, key(FOUR): 100.5, key(EIGHT): 60}, [])
    launches = Counter(record.race.contestant for record in history if record.race is not None)
    assert launches[2] < launches[0] == launches[1]


def test_the_baseline_among_the_contestants_and_a_contestant_named_twice_count_once() -> None:
    race = Race([{}, FOUR, dict(FOUR)], {})
    assert race.field == ({}, FOUR) and race.id == Race([FOUR], {}).id
    assert Race([{}], {}).propose([]) is None


def test_it_ends_with_its_rounds_and_goes_on_when_more_are_given() -> None:
    rates: dict[str, float | None] = {key({}): 100, key(FOUR): 101.5}
    short = run(Race([FOUR], {}, rounds=3), rates, [])
    assert len(short) == 6 and Race([FOUR], {}, rounds=3).standing(short).decided
    more = Race([FOUR], {}, rounds=8).propose(short)
    assert more is not None and more.race is not None and more.race.round == 4


def test_it_ends_before_the_launch_that_its_seconds_would_not_hold() -> None:
    rates: dict[str, float | None] = {key({}): 100, key(FOUR): 101}
    # Each of these launches took 34.1 s.
    assert len(run(Race([FOUR], {}, budget_s=110.0), rates, [])) == 3
    assert Race([FOUR], {}, budget_s=0.0).propose([]) is None


def test_an_older_record_knows_of_no_race() -> None:
    plain = record_to_json(a_trial(1, 100.0))
    del plain["race"]
    assert record_from_json(plain).race is None


def test_an_older_race_does_not_say_what_counted_as_equal_and_goes_on_with_the_default() -> None:
    race, older = Race([FOUR], {}), []
    for record in run(race, {key({}): 100, key(FOUR): 101}, [], most=6):
        plain = record_to_json(record)
        assert plain["race"].pop("delta") == race.delta
        older.append(record_from_json(plain))
    assert older[0].race is not None and older[0].race.delta is None
    assert race.rules(older).delta == race.delta and race.propose(older) is not None
