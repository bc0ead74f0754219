"""Keep or roll back: one trial against what had won before it."""

from dataclasses import replace
from typing import Any

import pytest

from support.others import disturbed
from support.records import a_gpu_record
from support.studies import a_failure, a_trial
from vtune.analysis.rungs import Judged, batch_words, judge_rung, loading_most, ruled_out, threads_most, too_big_for
from vtune.domain.experiment import Limit, Limits
from vtune.domain.machine_use import ProcessUse
from vtune.domain.phases import Success
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus

BEFORE = a_trial(1, 10.0)
GIB = 2**30
TWO_GIB = Limits(ram=Limit(bytes=2 * GIB, text="2GiB"))


def judged(rung: TrialRecord, before: TrialRecord = BEFORE, **fields: Any) -> Judged:
    asked: dict[str, Any] = {"success": Success(), "limits": Limits(), "ram_total_bytes": 64 * GIB, "cores": 8.0}
    return judge_rung(rung, before, **{**asked, **fields})


def test_faster_beyond_noise_is_kept_and_says_by_how_much_over_what() -> None:
    found = judged(a_trial(2, 20.0, asked={"workers": 2}))
    assert found.kept and not found.too_big
    assert found.why == "2.0× ± 0.1 of trial 1"
    assert found.ratio is not None and found.ratio.value == pytest.approx(2.0)


@pytest.mark.parametrize(("rate", "words"), [(10.3, "not shown to be faster"), (9.8, "not shown"), (7.0, ": slower")])
def test_what_is_no_faster_than_noise_is_rolled_back(rate: float, words: str) -> None:
    found = judged(a_trial(2, rate, asked={"workers": 2}))
    assert not found.kept and words in found.why


def test_a_shown_gain_of_no_more_than_counts_as_equal_is_no_gain() -> None:
    # Two launches differ by some percent whatever their windows say, so no single launch shows so little anyhow.
    assert not judged(a_trial(2, 10.15, ci=0.0001, asked={"workers": 2})).kept


def test_a_larger_batch_is_judged_by_samples_and_not_by_the_time_of_its_steps() -> None:
    longer_steps = a_trial(2, 15.0, batch=4, asked={"batch_size": 4})
    assert judged(longer_steps, a_trial(1, 10.0, batch=1)).kept


def test_the_rate_of_the_whole_run_decides_where_both_have_one() -> None:
    restarts = a_trial(2, 14.0, asked={"workers": 8}, measured={"samples_per_s_whole_run": 9.0})
    assert not judged(restarts).kept
    assert judged(restarts, a_trial(1, 10.0, whole=False, measured={"samples_per_s_whole_run": None})).kept


def test_an_interval_that_holds_half_and_twice_the_rate_decides_nothing() -> None:
    wide = a_trial(2, 10.0, asked={"workers": 2}, measured={"samples_per_s_ci95": (0.2, 500.0)})
    found = judged(wide)
    assert found.undecided and not found.kept and found.ratio is None
    assert found.why == "too noisy to tell from trial 1"
    assert not judged(a_trial(2, 10.0, ci=0.1, asked={"workers": 2})).undecided


@pytest.mark.parametrize("first", [True, False])
def test_a_busy_machine_decides_nothing_whichever_of_the_two_it_disturbed(first: bool) -> None:
    trials = BEFORE, a_trial(2, 20.0, asked={"workers": 2})
    before, rung = (disturbed(one) if (one is trials[0]) is first else one for one in trials)
    found = judged(rung, before)
    assert found.undecided and not found.kept and not found.too_big and found.ratio is None


def test_a_rate_without_an_interval_shows_nothing() -> None:
    found = judged(a_trial(2, 20.0, ci=None, asked={"workers": 2}))
    assert not found.kept and "no interval" in found.why


@pytest.mark.parametrize(
    ("status", "too_big"),
    [
        (TrialStatus.OUT_OF_VRAM, True),
        (TrialStatus.OUT_OF_RAM, True),
        (TrialStatus.OUT_OF_SHM, True),
        (TrialStatus.REFUSED, True),
        (TrialStatus.CRASHED, False),
        (TrialStatus.INVALID, False),
        (TrialStatus.HUNG, False),
    ],
)
def test_what_failed_is_rolled_back_with_its_own_words(status: TrialStatus, too_big: bool) -> None:
    found = judged(a_failure(2, status, "because of this"))
    assert not found.kept and "because of this" in found.why and found.too_big is too_big and found.ratio is None


def test_over_a_limit_is_rolled_back_with_the_number_whatever_its_rate() -> None:
    found = judged(a_trial(2, 90.0, asked={"workers": 2}), limits=TWO_GIB)
    assert not found.kept and found.too_big and "3 GiB" in found.why and "2 GiB" in found.why


def test_an_allocator_out_of_room_and_a_window_that_lived_on_stock_are_no_gains() -> None:
    cramped = judged(a_trial(2, 90.0, measured={"alloc_retries": 3}))
    assert not cramped.kept and cramped.too_big and "out of room" in cramped.why
    fed = judged(a_trial(2, 90.0, measured={"fed_from_stock": True}))
    assert not fed.kept and not fed.too_big and "would not last" in fed.why


def test_few_steps_are_not_enough_unless_what_had_won_has_no_more() -> None:
    few = {"steps_measured": 6, "steady": False}
    found = judged(a_trial(2, 20.0, measured=few))
    assert not found.kept and "6 measured steps" in found.why
    assert judged(a_trial(2, 20.0, measured=few), a_trial(1, 10.0, measured=few)).kept


def test_cold_and_warm_are_not_compared() -> None:
    found = judged(a_trial(2, 50.0, measured={"cache": "warm"}), a_trial(1, 10.0, measured={"cache": "cold"}))
    assert not found.kept and "not comparable" in found.why and found.ratio is None


def test_a_missed_criterion_of_the_plan_is_told_and_changes_nothing() -> None:
    success = Success(gpu_util_percent=50)
    idle = replace(a_gpu_record(trial=2), measurement=replace(a_gpu_record().measurement, samples_per_s=24.0))
    idle = replace(
        idle, measurement=replace(idle.measurement, samples_per_s_ci95=(23.0, 25.0), samples_per_s_whole_run=None)
    )
    found = judged(idle, a_trial(1, 10.0, measured={"cache": "cold"}), success=success)
    assert found.kept and found.why.endswith("below the plan's GPU > 50 % (17 %)") and found.not_judged == ()


def test_a_criterion_that_nothing_here_measures_is_not_judged_and_never_failed() -> None:
    found = judged(a_trial(2, 20.0), success=Success(gpu_util_percent=50))
    assert found.kept and found.not_judged == ("GPU > 50 %: not judged, no GPU was seen",)


def test_a_larger_effective_batch_says_the_rules_of_thumb() -> None:
    words = batch_words(a_trial(2, 20.0, batch=4), a_trial(1, 10.0, batch=1))
    assert "the effective batch is 4 instead of 1" in words and "×4 for SGD" in words and "×2 for Adam" in words
    assert "samples instead" not in words
    by_iterations = a_trial(2, 20.0, batch=4, measured={"samples_per_epoch": 16000})
    assert "an epoch sees 16000 samples instead of 4000" in batch_words(by_iterations, a_trial(1, 10.0, batch=1))
    assert batch_words(a_trial(2, 20.0, batch=2), a_trial(1, 10.0, batch=2)) == ""


def test_which_memory_has_no_room_is_told_apart() -> None:
    assert too_big_for(a_failure(1, TrialStatus.OUT_OF_VRAM), Limits(), None) == ("VRAM", "out of vram: exit code 1")
    over = too_big_for(BEFORE, TWO_GIB, None)
    assert over is not None and over[0] == "RAM"
    assert too_big_for(a_failure(1), Limits(), None) is None and ruled_out(BEFORE, Limits(), None) is None


def test_better_loading_wins_no_more_than_the_training_waits() -> None:
    waits = replace(BEFORE, diagnosis=replace(BEFORE.diagnosis, headroom=1.01))
    most = loading_most(waits)
    assert most is not None and most == pytest.approx(1.01 / 0.98)
    assert loading_most(replace(BEFORE, diagnosis=replace(BEFORE.diagnosis, headroom=None))) is None


def beside(cpu: float | None, queued: float | None) -> TrialRecord:
    main = ProcessUse(role="main", cpu_fraction=cpu, queued_fraction=queued)
    return replace(
        BEFORE,
        measurement=replace(BEFORE.measurement, processes=(main,)),
        diagnosis=replace(BEFORE.diagnosis, headroom=1.0),
    )


def test_what_the_training_stands_in_line_for_is_to_be_had_by_other_loading() -> None:
    alone, crowded = (loading_most(beside(0.8, queued)) for queued in (0.0, 0.2))
    assert alone is not None and crowded is not None
    assert crowded / alone == pytest.approx(1.25)


@pytest.mark.parametrize(("cpu", "most"), [(0.02, 1.0), (1.0, 1.0), (1.9, None), (None, None)])
def test_threads_win_nothing_where_one_core_is_all_that_is_used(cpu: float | None, most: float | None) -> None:
    assert threads_most(beside(cpu, 0.0)) == most
