"""A full run in the journal: no rival, no answer, and evidence where its settings ran out of memory."""

from __future__ import annotations

from dataclasses import replace

from support.choices import choose
from support.studies import a_failure, a_trial
from vtune.domain.trial import TrialStatus
from vtune.strategies.known import Known

OWN, TUNED = a_trial(1, 10.0), a_trial(2, 20.0, asked={"workers": 4})


def test_a_full_run_is_no_rival_however_fast_it_was() -> None:
    launched = replace(a_trial(3, 90.0, asked={"workers": 8}), origin="launch")
    choice = choose([OWN, TUNED, launched])
    assert choice.best == TUNED and 3 not in choice.ratios
    [lost] = [one for one in choice.lost if one.trial == 3]
    assert lost.reason == "full_run"


def test_settings_that_ran_out_of_memory_in_the_full_run_are_not_chosen_again() -> None:
    died = replace(
        a_failure(3, TrialStatus.OUT_OF_RAM, "RAM grows by 2 MiB a step", asked={"workers": 4}), origin="launch"
    )
    assert choose([OWN, TUNED, died]).best == OWN


def test_a_full_run_that_crashed_says_nothing_against_its_settings() -> None:
    crashed = replace(a_failure(3, detail="a full disk", asked={"workers": 4}), origin="launch")
    assert choose([OWN, TUNED, crashed]).best == TUNED


def test_a_plan_of_phases_measures_what_only_a_full_run_has() -> None:
    launched = replace(a_trial(3, 90.0, asked={"workers": 8}), origin="launch")
    known = Known([OWN, TUNED, launched], named={"workers": 1}, ram_limit_bytes=None)
    assert known.answer({"workers": 8}) is None
    assert known.answer({"workers": 4}) == TUNED
