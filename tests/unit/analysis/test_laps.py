"""Which race of a journal counts, and as what it was planned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.studies import a_failure, a_trial
from vtune.analysis.laps import launched_otherwise, met_in_race, rules_of
from vtune.analysis.race import DELTA
from vtune.domain.record import TrialRecord
from vtune.domain.trial import RaceLeg

FOUR = {"workers": 4}
A, B = a_trial(1, 10.0), a_trial(2, 10.0, asked=FOUR)


def legs(
    name: str, first: int, *ratios: float | None, rounds: int = 8, delta: float | None = None
) -> list[TrialRecord]:
    """A makes 10 samples/s, B so many times that; without a ratio B fails."""
    found = []
    for at, ratio in enumerate(ratios):
        b = a_trial(first + 2 * at + 1, 10 * ratio, asked=FOUR) if ratio else a_failure(first + 2 * at + 1, asked=FOUR)
        for contestant, record in enumerate((a_trial(first + 2 * at, 10.0), b)):
            leg = RaceLeg(id=name, round=at + 1, contestant=contestant, contestants=2, rounds=rounds, delta=delta)
            found.append(replace(record, race=leg))
    return found


def ratio(records: list[TrialRecord], race: str | None = None) -> float:
    found = met_in_race(records, B, A, "samples_per_s", None, race=race)
    assert found is not None
    return found.paired.ratio.value


def test_of_two_races_that_were_decided_the_later_one_counts_though_it_was_shorter() -> None:
    first = legs("first", 10, 1.1, 1.0, 1.1, 1.0, 1.1, 1.0, 1.1, 1.0)
    later = legs("later", 40, 1.3, 1.3, 1.3)
    assert ratio([*first, *later]) == pytest.approx(1.3, abs=0.01)
    assert ratio([*first, *later], race="first") == pytest.approx(1.05, abs=0.01)


def test_a_race_that_was_stopped_or_failed_does_not_replace_one_that_was_decided() -> None:
    first = legs("first", 10, 1.3, 1.3, 1.3)
    for later in (legs("later", 40, 1.0, 1.02), legs("later", 40, 1.0, 1.02, None)):
        assert ratio([*first, *later]) == pytest.approx(1.3, abs=0.01)
        assert ratio([*first, *later], race="later") == pytest.approx(1.01, abs=0.01)


def test_a_race_is_judged_by_the_most_rounds_and_the_narrowest_zone_that_it_was_planned_with() -> None:
    old = legs("r", 10, 1.0, 1.0, rounds=3)
    assert (rules_of(old).rounds, rules_of(old).delta) == (3, DELTA)
    # A gate may ask for a zone of its own; a wider one than the race was run with is none.
    assert rules_of(old, delta=0.005).delta == 0.005 and rules_of(old, delta=0.05).delta == DELTA
    gone_on = [*old, *legs("r", 20, 1.0, rounds=8, delta=0.01)]
    assert (rules_of(gone_on).rounds, rules_of(gone_on).delta) == (8, 0.01)
    assert rules_of(gone_on, rounds=2).rounds == 8 and rules_of(gone_on, rounds=12).rounds == 12


def test_a_race_is_judged_by_what_all_its_launches_have_and_tells_which_they_are() -> None:
    race = legs("r", 10, 1.3, 1.3)
    found = met_in_race([A, B, *race], B, A, None, None)
    assert found is not None and found.ranked_by == "samples_per_s_whole_run" and found.race == "r"
    assert [[leg.trial for leg in side] for side in found.legs] == [[11, 13], [10, 12]]
    lacking = replace(race[0], measurement=replace(race[0].measurement, samples_per_s_whole_run=None))
    lacking = replace(lacking, measurement=replace(lacking.measurement, samples_per_epoch=None))
    without = met_in_race([A, B, lacking, *race[1:]], B, A, None, None)
    assert without is not None and without.ranked_by == "samples_per_s"


def test_launches_of_a_race_that_ran_with_other_settings_than_the_trial_are_told() -> None:
    """The study's command had another number of workers by then."""
    race = [replace(leg, settings={**leg.settings, "workers": leg.settings["workers"] if leg.asked else 2})
            for leg in legs("r", 10, 1.3, 1.3)]  # fmt: skip
    assert met_in_race([A, B, *race], B, A, None, None) is None
    found = launched_otherwise([A, B, *race], "r", A, B)
    assert [(record.trial, [leg.trial for leg in others]) for record, others in found] == [(1, [10, 12])]
    assert launched_otherwise([A, B, *legs("r", 10, 1.3, 1.3)], "r", A, B) == []
    assert launched_otherwise([A, B, *race], "r", A, a_trial(3, 10.0, asked={"workers": 8})) == []
