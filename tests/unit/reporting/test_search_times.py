"""How long a search may still take, checked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.hunts import RECORDS, a_hunt
from support.studies import a_trial
from vtune.domain.experiment import Window
from vtune.domain.record import StepTimes, TrialRecord
from vtune.domain.search import Hunt
from vtune.reporting.search_times import expected_search

WINDOW = Window(steps=50, max_steps=100, trial_time_s=60.0)
NEW = Hunt(sampler="auto", stage="baseline", proposal=None, baseline=None, best=None, settings={}, left=(1, 42))


def ran(trial: int, took_s: float, step_s: float, steps: int) -> TrialRecord:
    times = StepTimes(p10=step_s, p50=step_s, p90=step_s, p99=step_s, mean=step_s)
    return replace(a_trial(trial, 10.0, measured={"step_time_s": times, "steps_measured": steps}), seconds=took_s)


def test_before_anything_ran_only_the_cap_of_a_trial_is_known() -> None:
    found = expected_search(NEW, WINDOW, [], trials=20)
    assert (found.trials, found.confirmations, found.measured) == (20, 22, False)
    assert found.lines[0] == "at most 20 trials of at most 60 s each, start-ups apart: at most 20 min"
    assert "at most 22 launches, at most 22 min" in found.lines[1] and found.left_text == ""
    # The usual before the most.
    assert found.lines[1].startswith("then the winner once more for longer, 1 launch; only where")


def test_start_up_and_steps_of_what_ran_make_the_next() -> None:
    # Besides their steps 10 and 20 s; a step takes 0.1 to 0.2 s.
    records = [ran(1, 20.0, 0.2, 50), ran(2, 30.0, 0.1, 100)]
    hunt = a_hunt(trials=(1, 2), counted=2, left=(1, 40))
    found = expected_search(hunt, WINDOW, records, trials=20)
    assert found.each_s == pytest.approx((15 + 50 * 0.1, 15 + 100 * 0.2)) and found.trials == 18
    assert found.least_s == pytest.approx(20) and found.most_s == pytest.approx(40 * 35)
    # Of the search itself: of what confirms its winner nobody knows whether it is needed.
    assert found.left_text == "20 s to 10 min left"


def test_what_is_left_moves_with_each_trial() -> None:
    records = [ran(1, 5.0, 0.02, 100)]
    told = [
        expected_search(a_hunt(trials=(1,), counted=n, left=(1, 62 - n)), WINDOW, records, trials=40).left_text
        for n in (3, 12)
    ]
    assert told == ["4 s to 3 min left", "4 s to 2.3 min left"]


def test_one_launch_that_is_left_is_one_time_and_no_span() -> None:
    found = expected_search(a_hunt(trials=(1,), counted=19, left=(1, 23)), WINDOW, [ran(1, 5.0, 0.02, 50)], trials=20)
    assert found.trials == 1 and found.left_text == "5 to 6 s left"
    exact = replace(WINDOW, max_steps=50)
    found = expected_search(a_hunt(trials=(1,), counted=19, left=(1, 23)), exact, [ran(1, 5.0, 0.02, 50)], trials=20)
    assert found.left_text == "5 s left"


def test_the_scout_run_is_a_launch_of_the_estimate() -> None:
    found = expected_search(NEW, WINDOW, [], trials=20, scout=True)
    assert found.lines[0] == "at most 20 trials and a scout run of at most 60 s each, start-ups apart: at most 21 min"
    assert found.most_s == 43 * 60


def test_a_single_trial_has_no_winner_to_confirm() -> None:
    one = expected_search(replace(NEW, left=(1, 23)), WINDOW, [], trials=1)
    assert (one.trials, one.confirmations) == (1, 0) and len(one.lines) == 1
    # A probe of before may be one.
    before = [ran(1, 10.0, 0.1, 50), replace(ran(2, 10.0, 0.05, 50), asked={"workers": 4})]
    assert expected_search(replace(NEW, left=(1, 23)), WINDOW, before, trials=1).confirmations == 22


def test_steps_take_no_longer_than_the_cap_of_a_trial() -> None:
    found = expected_search(a_hunt(trials=(1,), counted=1), WINDOW, [ran(1, 200.0, 3.0, 60)], trials=20)
    assert found.each_s == pytest.approx((80.0, 80.0))


def test_a_budget_ends_it_earlier() -> None:
    found = expected_search(
        a_hunt(trials=(1,), counted=1), WINDOW, [ran(1, 20.0, 0.2, 50)], trials=20, budget_left_s=90
    )
    assert found.most_s == 90 and not any("min" in line for line in found.lines)
    assert found.lines[-1] == "all of it within the 90 s that are left of the budget: what would pass it is not begun"
    assert found.lines[0] == "at most 19 trials of about 20 to 30 s each"
    enough = expected_search(NEW, WINDOW, [], trials=20, budget_left_s=7200)
    assert "at most 20 min" in enough.lines[0]
    assert enough.lines[-1] == "2 h of the budget are left: what would pass it is not begun"


def test_confirmations_alone_and_the_end_are_told_as_such() -> None:
    confirming = expected_search(a_hunt(stage="confirm", left=(1, 22)), WINDOW, RECORDS, trials=20)
    assert (confirming.trials, confirming.confirmations) == (0, 22)
    assert confirming.lines[0].startswith("the winner once more for longer")
    assert expected_search(a_hunt(stage="done", left=(0, 0)), WINDOW, [], trials=20).lines == [
        "nothing is left to launch"
    ]
