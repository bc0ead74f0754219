"""A winner's longer launch in the choice: whether its settings last, and no second opinion on how fast they are."""

from dataclasses import replace

from support.choices import choose
from support.studies import a_failure, a_trial
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus

BASELINE, WINNER = a_trial(1, 10.0), a_trial(2, 17.0, asked={"workers": 4})


def longer(rate: float) -> TrialRecord:
    """It saw an epoch's end that the short ones did not."""
    return replace(a_trial(3, rate, asked={"workers": 4}), origin="confirm", reason="the winner once more, for longer")


def test_what_it_sees_beyond_the_others_makes_them_no_less_sure() -> None:
    choice = choose([BASELINE, WINNER, longer(13.0)])
    assert choice.best is not None and choice.best.trial == 2
    assert choice.speedup is not None and choice.speedup.ci95 is not None and choice.speedup.ci95[0] > 1.6
    again = replace(longer(13.0), origin="probe")
    assert choose([BASELINE, WINNER, again]).speedup != choice.speedup


def test_it_is_told_as_another_launch_of_the_same_settings() -> None:
    lost = {one.trial: one for one in choose([BASELINE, WINNER, longer(16.8)]).lost}
    assert lost[3].reason == "repeated" and "trial 2" in lost[3].why


def test_settings_that_do_not_last_are_not_chosen() -> None:
    died = replace(a_failure(3, TrialStatus.CRASHED, asked={"workers": 4}), origin="confirm")
    choice = choose([BASELINE, WINNER, died])
    assert choice.best is not None and choice.best.trial == 1
