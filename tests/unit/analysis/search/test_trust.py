"""Whether the model kept what it had promised of trials before they ran."""

from dataclasses import replace

import pytest

from support.studies import a_trial
from vtune.analysis.search.foretold import foretold
from vtune.analysis.search.trust import foretold_well, mistrust, off_times
from vtune.domain.prediction import Prediction
from vtune.domain.record import TrialRecord


def promised(trial: int, measured: float, of: float, *, half: float) -> TrialRecord:
    """Of the whole run's rate, which is what studies rank by."""
    prediction = Prediction(samples_per_s=of, samples_per_s_ci95=(of * (1 - half), of * (1 + half)))
    return replace(a_trial(trial, measured / 0.98, asked={"workers": trial}), predicted=prediction)


def test_a_model_that_keeps_what_it_says_is_trusted() -> None:
    assert mistrust([promised(trial, 10.0 + 0.2 * (-1) ** trial, 10.0, half=0.1) for trial in range(2, 12)]) is None


def test_wide_intervals_may_be_far_off() -> None:
    assert mistrust([promised(trial, 14.0, 10.0, half=0.6) for trial in range(2, 12)]) is None


def test_one_that_is_off_by_far_more_than_it_says_is_told_with_its_figures() -> None:
    found = mistrust([promised(trial, 13.0, 10.0, half=0.1) for trial in range(2, 8)])
    assert found is not None and found.off == pytest.approx(1.3)
    assert found.sd == pytest.approx(0.262, abs=0.001)
    assert "0 of the model's last 6 predictions" in found.text and "30% off" in found.text and "Optuna" in found.text


def test_one_that_was_far_off_among_others_that_held_is_bad_luck() -> None:
    """What a reader is told of them, three of four inside, is no reason for mistrust."""
    held = [promised(trial, 10.1, 10.0, half=0.1) for trial in range(2, 5)]
    assert mistrust([*held, promised(5, 15.0, 10.0, half=0.1)]) is None


def test_what_two_launches_differ_by_is_not_held_against_a_narrow_interval() -> None:
    assert mistrust([promised(trial, 10.25, 10.0, half=0.005) for trial in range(2, 8)]) is None


def test_its_verdict_is_never_harder_than_that_of_the_table_of_predictions() -> None:
    for measured in (10.0, 10.5, 11.5, 13.0, 30.0):
        records = [promised(trial, measured if trial % 3 else 10.0, 10.0, half=0.1) for trial in range(2, 8)]
        assert mistrust(records) is None or foretold(records, "samples_per_s_whole_run").wrong


def test_three_trials_say_nothing_of_it() -> None:
    assert mistrust([promised(trial, 13.0, 10.0, half=0.1) for trial in range(2, 5)]) is None


def test_what_it_has_learnt_since_counts_and_not_how_it_began() -> None:
    began = [promised(trial, 20.0, 10.0, half=0.1) for trial in range(2, 7)]
    since = [promised(trial, 10.1, 10.0, half=0.1) for trial in range(7, 14)]
    assert mistrust(began) is not None and mistrust([*began, *since]) is None


def test_how_far_off_it_was_is_told_in_what_it_says_of_itself() -> None:
    # 13 for 10 is 0.262 as a logarithm; a tenth above is 1.96 standard deviations of 0.0486.
    assert off_times([promised(trial, 13.0, 10.0, half=0.1) for trial in range(2, 8)]) == pytest.approx(5.15, abs=0.02)
    assert off_times([promised(trial, 10.1, 10.0, half=0.1) for trial in range(2, 8)]) == 1.0
    assert off_times([promised(trial, 13.0, 10.0, half=0.1) for trial in range(2, 4)]) == 1.0


@pytest.mark.parametrize(
    ("measured", "half", "trials", "well"),
    [
        (10.2, 0.1, 4, True),
        (10.2, 0.1, 3, False),  # too few to say so
        (10.2, 0.01, 4, False),  # near, and all the same not as it said
        (10.5, 0.1, 4, False),  # as it said, and all the same not near
    ],
)
def test_it_foretold_well_where_all_came_as_it_said_and_near(
    measured: float, half: float, trials: int, well: bool
) -> None:
    records = [promised(trial, measured, 10.0, half=half) for trial in range(2, 2 + trials)]
    assert foretold_well(records) is well


def test_of_many_the_latest_tell_whether_it_foretold_well() -> None:
    began = [promised(2, 20.0, 10.0, half=0.1), promised(3, 10.0, 10.0, half=0.1)]
    since = [promised(trial, 10.1, 10.0, half=0.1) for trial in range(4, 10)]
    assert foretold_well([*began, *since]) and not foretold_well([*began, *since[:-1]][:-1])
