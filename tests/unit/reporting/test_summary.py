"""What a summary and choice.json say of a ratio that is from a race."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.studies import a_report, a_trial
from vtune.analysis.repeated_words import how_to_mend, in_present_settings
from vtune.domain.advice import Advice
from vtune.domain.record import TrialRecord
from vtune.domain.repeated import Repeated, Repeats
from vtune.domain.trial import RaceLeg, TrialStatus
from vtune.reporting.report_json import choice_to_json
from vtune.reporting.summary import summarize

FOUR = {"workers": 4}
SINGLE = [a_trial(1, 10.0), a_trial(2, 13.0, asked=FOUR)]


def race_of(ratio: float) -> list[TrialRecord]:
    return [
        replace(
            a_trial(10 + 2 * at + contestant, 10 * (ratio if contestant else 1), asked=FOUR if contestant else {}),
            race=RaceLeg(id="r", round=at + 1, contestant=contestant, contestants=2, rounds=8),
        )
        for at in range(6)
        for contestant in (0, 1)
    ]


def test_a_winner_of_a_race_says_by_how_many_rounds() -> None:
    report = a_report(*SINGLE, *race_of(1.1))
    told = choice_to_json(report)
    assert "1.10× ± 0.0" in summarize(report).verdict and "by 6 rounds of a race" in summarize(report).verdict
    assert told["best"] is not None and told["paired_rounds"] == 6


def test_what_a_race_took_back_says_so() -> None:
    report = a_report(*SINGLE, *race_of(1.0))
    told = choice_to_json(report)
    assert summarize(report).verdict.startswith("keep your own settings")
    assert "by 6 rounds of a race" in summarize(report).verdict
    lost = {one["trial"]: one for one in told["lost"]}
    assert told["paired_rounds"] is None and lost[2]["paired_rounds"] == 6 and "rounds of a race" in lost[2]["why"]


def test_a_ratio_of_single_launches_is_from_no_race() -> None:
    report = a_report(*SINGLE)
    told = choice_to_json(report)
    assert "race)" not in summarize(report).verdict and told["paired_rounds"] is None
    assert all(lost["paired_rounds"] is None for lost in told["lost"])


def test_data_that_workers_repeat_is_mended_first() -> None:
    found = Repeated(reason=Repeats.SAME_NUMBERS, workers=4, dataset="Patches", where="data.py:8", generator="self.rng")
    invalid = a_trial(2, 40.0, asked=FOUR, measured={"repeated": found}, status=TrialStatus.INVALID)
    assert summarize(a_report(a_trial(1, 10.0), invalid)).next[0] == how_to_mend(found)
    assert how_to_mend(found) not in summarize(a_report(*SINGLE)).next


ADVICE = "try 2 workers"


@pytest.mark.parametrize(
    ("asked", "status", "is_answered"),
    [
        ({"workers": 2}, TrialStatus.COMPLETED, True),
        ({"workers": 2, "prefetch_factor": 4}, TrialStatus.COMPLETED, True),
        ({"workers": 2, "pin_memory": False}, TrialStatus.COMPLETED, False),
        ({"workers": 4}, TrialStatus.COMPLETED, False),
        ({"workers": 2}, TrialStatus.OUT_OF_RAM, True),
        ({"workers": 2}, TrialStatus.INTERRUPTED, False),
        ({"workers": 2}, TrialStatus.TOO_SHORT, False),
    ],
)
# A value may hold anything that a command line holds.
@pytest.mark.parametrize("own_asked", [{}, {"crop": "[96, 96]", "loss": "a=b, c:"}])
def test_advice_that_a_trial_has_answered_since_is_not_given(
    asked: dict[str, Any], status: TrialStatus, is_answered: bool, own_asked: dict[str, Any]
) -> None:
    asked, own = {**own_asked, **asked}, a_trial(1, 10.0)
    own = replace(own, settings={**own.settings, "prefetch_factor": 2, "pin_memory": True, **own_asked})
    own = replace(own, diagnosis=replace(own.diagnosis, advice=(Advice(ADVICE, asks={**own_asked, "workers": 2}),)))
    slower = a_trial(2, 8.0 if status is TrialStatus.COMPLETED else None, asked=asked, status=status)
    ended_by = "disk" if status is TrialStatus.TOO_SHORT else "itself"
    slower = replace(slower, settings={**own.settings, **asked}, evidence={"ended_by": ended_by})
    assert (ADVICE not in summarize(a_report(own, slower)).next) is is_answered


def test_a_summary_tells_of_repeated_data_with_the_trial_that_showed_it() -> None:
    found = Repeated(reason=Repeats.SAME_SAMPLES, workers=2, dataset="Patches", where="d.py:8")
    own, other = a_trial(1, 10.0), a_trial(2, 13.0, asked=FOUR)
    own = replace(own, measurement=replace(own.measurement, repeated=found))
    (note,) = (note for note in summarize(a_report(own, other)).notes if in_present_settings(found) in note)
    assert note.startswith("trial 1: ")


SAME_NUMBERS = Repeated(
    reason=Repeats.SAME_NUMBERS, workers=2, dataset="Crops", where="crops.py:10", generator="self.rng"
)


@pytest.mark.parametrize("other", [None, 10.2, 13.0])
def test_that_the_present_settings_repeat_data_stands_in_the_headline_and_its_mend_comes_first(
    other: float | None,
) -> None:
    own = a_trial(1, 10.0, workers=2, measured={"repeated": SAME_NUMBERS})
    beside = [] if other is None else [a_trial(2, other, workers=2, asked={"prefetch_factor": 4})]
    report = a_report(own, *beside)
    told = summarize(report)
    assert told.verdict.count("your present settings repeat data: 2 workers of the loader draw the same") == 1
    assert told.next[0].startswith("make the generator at crops.py:10 anew in each worker")
    assert not [line for line in told.next if "--race" in line or "--precise" in line or "once more" in line]


def test_data_that_was_not_shown_to_repeat_is_no_headline() -> None:
    doubt = replace(SAME_NUMBERS, reason=Repeats.NOT_SHOWN)
    assert "not shown" not in summarize(a_report(a_trial(1, 10.0, measured={"repeated": doubt}))).verdict
