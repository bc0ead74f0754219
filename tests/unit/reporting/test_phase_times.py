"""Expected times: from the baseline once it ran, from the cap of a trial before."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.studies import a_failure, a_trial
from vtune.domain.experiment import Experiment, Window, Workload
from vtune.domain.phases import Phase, PhaseOutcome, Walk
from vtune.domain.record import StepTimes, TrialRecord
from vtune.reporting.phase_times import Expected, expected, scout_to_come
from vtune.reporting.phase_words import MOST_OF_A_RACE, span_text

WINDOW = Window(steps=50, max_steps=100, trial_time_s=180.0)
PHASE = Phase(number=1, name="workers", knob="workers")
PHASE_OF_WORKERS = replace(PHASE, rungs=({"workers": 2}, {"workers": 4}))


def a_walk(most: int, *trials: int, **fields: object) -> Walk:
    walk = Walk(stage="phases", proposal=None, baseline=None, settings={}, best=None, trials=trials, left=(1, most))
    return replace(walk, **fields)


def took(trial: int, seconds: float, *, steps: int, step_s: float) -> TrialRecord:
    times = StepTimes(p10=step_s, p50=step_s, p90=step_s, p99=step_s, mean=step_s)
    record = a_trial(trial, 1 / step_s, measured={"step_time_s": times, "steps_measured": steps})
    return replace(record, seconds=seconds)


def asked(walk: Walk, *records: TrialRecord, window: Window = WINDOW, phase: Phase = PHASE) -> Expected:
    return expected(walk, window, records, [phase], confirm=False)


def test_before_anything_ran_only_the_cap_is_known_and_that_is_said() -> None:
    found = asked(a_walk(19))
    assert not found.measured and found.trials_s == 19 * 180
    assert found.text == "at most 19 trials of at most 3 min each, start-ups apart: at most 57 min"
    assert found.left_text == ""


def test_the_baselines_start_up_and_steps_make_the_rest() -> None:
    baseline = took(1, 30.0, steps=50, step_s=0.4)  # 10 s besides its steps
    found = asked(a_walk(4, 1), baseline)
    assert found.measured and found.each_s == (pytest.approx(30.0), pytest.approx(50.0))
    assert found.text == "at most 4 trials of about 30 to 50 s each: at most about 3 min"
    assert found.left_text == "at most 3 min left"


def test_no_trial_is_expected_to_take_longer_than_it_may() -> None:
    assert asked(a_walk(1, 1), took(1, 190.0, steps=10, step_s=18.0)).trials_s == pytest.approx(10 + 180)


def test_a_plans_longer_windows_count_until_they_are_past_and_yield_to_steps_that_were_typed() -> None:
    baseline, longer = took(1, 30.0, steps=50, step_s=0.4), replace(PHASE, steps=(200, 300))
    assert asked(a_walk(1, 1), baseline, phase=longer).trials_s == pytest.approx(10 + 300 * 0.4)
    past = a_walk(1, 1, phases=(PhaseOutcome(phase=longer, done=True),))
    assert asked(past, baseline, phase=longer).trials_s == pytest.approx(10 + 100 * 0.4)
    typed = Window(steps=20, max_steps=20, trial_time_s=180.0)
    assert asked(a_walk(1, 1), baseline, window=typed, phase=longer).trials_s == pytest.approx(10 + 20 * 0.4)


def test_what_ran_outside_of_the_walk_or_failed_tells_nothing() -> None:
    others = [took(7, 300.0, steps=50, step_s=1.0), a_failure(1)]
    assert not asked(a_walk(2, 1), *others).measured


def test_the_race_that_may_follow_is_told_apart_from_the_trials() -> None:
    baseline = took(1, 30.0, steps=50, step_s=0.4)
    found = expected(a_walk(3 + MOST_OF_A_RACE, 1), WINDOW, [baseline], [PHASE], confirm=True)
    assert (found.trials, found.race) == (3, 20)
    assert "then, where single launches leave a doubt, a race of 4 to 20 launches: at most about 17 min" in found.text
    racing = expected(a_walk(6, 1, stage="confirm"), WINDOW, [baseline], [PHASE], confirm=True)
    assert racing.text == "a race of 4 to 6 launches: at most about 5 min"
    assert expected(a_walk(0, 1), WINDOW, [baseline], [PHASE], confirm=True).text == "nothing is left to launch"


def test_launches_that_may_come_besides_are_told_with_what_they_are_for() -> None:
    found = asked(a_walk(4, left_to_fit=4, left_again=3))
    assert found.lines[1:] == [
        "besides, at most 4 to make your own settings fit, and 3 once more, where a trial reads its data otherwise or"
        " lived on its queues: at most 21 min"
    ]
    again = asked(a_walk(1, 1, left_again=1), took(1, 30.0, steps=50, step_s=0.4))
    assert again.lines[1].startswith("besides, at most 1 once more, where")
    assert again.lines[1].endswith(": at most about 50 s")


HOOKED = Experiment(study="s", workload=Workload(command=("python", "train.py"), cwd=Path(".")))


def test_the_scout_run_before_the_first_knob_that_needs_it_is_counted() -> None:
    walk = a_walk(3)
    assert scout_to_come(walk, [PHASE_OF_WORKERS], HOOKED, [])
    found = expected(walk, WINDOW, [], [PHASE_OF_WORKERS], confirm=False, scout=True)
    assert found.trials_s == 4 * 180
    assert found.lines[0] == ("at most 3 trials and a scout run of at most 3 min each, start-ups apart: at most 12 min")
    # It was made before the first trial that turned a knob from inside.
    turned = a_trial(2, 10.0, asked={"workers": 2})
    assert not scout_to_come(walk, [PHASE_OF_WORKERS], HOOKED, [a_trial(1, 5.0), turned])
    assert scout_to_come(walk, [PHASE_OF_WORKERS], HOOKED, [a_trial(1, 5.0), a_failure(2, asked={"workers": 2})])
    done = a_walk(3, phases=(PhaseOutcome(phase=PHASE_OF_WORKERS, done=True),))
    assert not scout_to_come(done, [PHASE_OF_WORKERS], HOOKED, [])
    # A key of its config needs none.
    config = {"training": {"workers": 1}}
    named = replace(
        HOOKED, workload=replace(HOOKED.workload, command=("python", "train.py", "{config}"), config=config)
    )
    assert not scout_to_come(walk, [PHASE_OF_WORKERS], named, [])


@pytest.mark.parametrize(
    ("least", "most", "text"),
    [(12.0, 34.0, "12 to 34 s"), (200.0, 540.0, "3 to 9 min"), (60.0, 5300.0, "1 to 88 min"),
     (5400.0, 14400.0, "1.5 to 4 h"), (600.0, 601.0, "10 min"), (0.0, 0.0, "0 s")],
)  # fmt: skip
def test_a_range_is_as_sure_as_an_estimate_is(least: float, most: float, text: str) -> None:
    assert span_text(least, most) == text
