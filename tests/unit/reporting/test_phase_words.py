"""Phases in words: signs never without words, numbers with their trial, rules for the learning rate with the batch."""

from dataclasses import replace

import pytest

from support.choices import choose
from support.studies import a_trial
from support.walks import BASELINE, BATCH, MISSED, OPTION_A, RECORDS, WORKERS, a_rung, an_end, climbed
from vtune.analysis.walked import pays_back_after_s, tuning_s
from vtune.domain.phases import Phase, Times
from vtune.domain.trial import TrialStatus
from vtune.reporting.phase_words import (
    MOST_OF_A_RACE,
    Measured,
    batch_text,
    cost_text,
    ladder_text,
    launches_left,
    missed_text,
    option_line,
    plan_text,
    rung_lines,
)

LIKED = "workers: the values that the model likes best, two, and up to 4 while they win"
SEEN = Measured({record.trial: record for record in (*RECORDS, OPTION_A)}, BASELINE, "samples_per_s")


def test_each_step_has_a_sign_and_the_word_for_it() -> None:
    kept, faster, too_big = rung_lines(climbed()[0].rungs, SEEN)
    assert (kept.sign, kept.word, kept.turned) == ("✓", "kept", "workers=2")
    assert kept.told == "20 samples/s, 2.0× ± 0.1 of trial 1 (trial 2)"
    assert faster.told.startswith("39 samples/s (predicted 41), ")
    assert (too_big.sign, too_big.word) == ("✗", "rolled back")
    assert too_big.told == "out of ram: 24 GiB of RAM in use (trial 4)"


def test_what_is_still_to_come_is_only_told_where_it_is_asked_for() -> None:
    rungs = climbed()[2].rungs
    assert rung_lines(rungs, SEEN) == []
    [line] = rung_lines(rungs, SEEN, open_too=True)
    assert (line.sign, line.word, line.turned, line.told) == ("·", "not tried yet", "prefetch_factor=2", "")


def test_steps_that_are_skipped_for_one_reason_share_a_line() -> None:
    skipped = [a_rung(turned={"workers": n}, state="skipped", why="two in a row were no better") for n in (8, 12, 16)]
    other = a_rung(turned={"workers": 24}, state="skipped", why="too big")
    first, second = rung_lines([*skipped, other], SEEN)
    assert first.turned == "workers=8, workers=12, workers=16" and first.told == "two in a row were no better"
    assert second.turned == "workers=24"


def test_a_batch_that_is_rolled_back_says_what_it_would_have_meant() -> None:
    line, _ = rung_lines(climbed()[1].rungs, SEEN)
    assert "effective batch 2 instead of 1: rules of thumb for the learning rate: ×2 for SGD (linear)" in line.told
    assert "an epoch sees 8000 samples instead of 4000" in line.told
    assert batch_text(a_trial(2, 20.0, batch=1), BASELINE) is None
    assert batch_text(a_trial(2, 20.0, measured={"effective_batch": None}), BASELINE) is None


@pytest.mark.parametrize(
    ("phase", "own", "text"),
    [
        (WORKERS, {}, "workers 1 → 2 → 4 → 6"),
        (BATCH, {}, "batch_size ×2 → ×4"),
        (BATCH, {"batch_size": 3}, "batch_size 6 → 12"),
        (replace(BATCH, rungs=({"batch_size": Times(factor=0.5)},)), {"batch_size": 3}, "batch_size ×0.5"),
        (replace(WORKERS, rungs=(), by_model=True), {}, LIKED),
        (Phase(number=1, name="gpus", knob="gpus", by_hand=("start it under torchrun",)), {}, ""),
        (
            Phase(number=1, name="w", knob="workers", rungs=({"workers": 6, "persistent_workers": True},)),
            {},
            "workers=6 persistent_workers=true",
        ),
    ],
)  # fmt: skip
def test_a_ladder_reads_as_it_is_climbed(phase: Phase, own: dict[str, int], text: str) -> None:
    assert ladder_text(phase, own=own) == text


def test_an_extended_ladder_shows_where_it_goes_on() -> None:
    longer = replace(WORKERS, beyond=({"workers": 8},))
    assert ladder_text(longer) == "workers 1 → 2 → 4 → 6" and ladder_text(longer, extend=True).endswith("6 → 8")


@pytest.mark.parametrize(
    ("up_to", "text"),
    [(1, "plan safe, phase 1 of 5"), (3, "plan safe, phases 1 to 3 of 5"), (5, "plan safe, all 5 phases")],
)
def test_how_much_of_the_plan_was_asked_for_is_said(up_to: int, text: str) -> None:
    assert plan_text("safe", up_to, 5) == text


def test_an_option_is_told_as_predicted_and_as_measured() -> None:
    choice = choose([*RECORDS, OPTION_A])
    [option] = an_end().options
    told = option_line(option, SEEN, choice)
    assert told.startswith("predicted 41 samples/s (36 to 45, 95 %), 3 GiB of RAM; measured 40.5 samples/s, 4.0")
    assert "of yours (trial 6)" in told and "effective batch 2 instead of 1" in told
    unasked = replace(option, trial=None, why="not asked for: --options measures it")
    assert option_line(unasked, SEEN, choice).endswith("; not asked for: --options measures it")
    assert option_line(replace(unasked, predicted=None, why=""), SEEN, choice) == "not measured"
    larger = option_line(replace(unasked, batch=(16, 8)), SEEN, choice)
    assert "effective batch 16 instead of 8" in larger and "×2 for SGD" in larger
    failed = option_line(replace(option, trial=4), SEEN, choice)
    assert "out of ram: stopped by vtune: 24 GiB of RAM in use (trial 4)" in failed


def test_what_was_missed_is_told_with_its_least() -> None:
    told = missed_text(MISSED)
    assert "workers=6 batch_size=2 comes to 41 samples/s (36 to 45, 95 %)" in told
    assert "1.31× the best that was measured, and at least 1.12×" in told


def test_tuning_pays_back_by_the_time_that_the_tuned_run_is_ahead() -> None:
    choice = choose(RECORDS)
    spent = tuning_s(RECORDS, (1, 2, 3))
    assert spent == pytest.approx(3 * 34.1) and choice.speedup is not None
    assert pays_back_after_s(spent, choice) == pytest.approx(spent / (choice.speedup.value - 1))
    assert "3 trials took 102 s; pays back after " in cost_text(spent, (1, 2, 3), choice)
    assert pays_back_after_s(34.0, choose([BASELINE])) is None
    assert cost_text(34.1, (1,), choose([BASELINE])) == "1 trial took 34.1 s"


def test_the_race_that_may_follow_is_no_trial_of_a_phase() -> None:
    walk = an_end(stage="phases", left=(1, 5 + MOST_OF_A_RACE))
    assert launches_left(walk, confirm=True) == (5, MOST_OF_A_RACE)
    assert launches_left(replace(walk, left=(1, 5)), confirm=False) == (5, 0)
    assert launches_left(replace(walk, stage="confirm", left=(2, 6)), confirm=True) == (0, 6)


def test_a_walk_that_was_interrupted_in_its_first_trial_still_took_its_time() -> None:
    stopped = replace(a_trial(1, None, status=TrialStatus.INTERRUPTED, origin="phase:0:baseline"), seconds=20.0)
    assert tuning_s([stopped], ()) == pytest.approx(20.0)
    assert cost_text(20.0, (), choose([stopped])) == "no trial was finished in 20 s"


def test_a_scout_run_is_a_part_of_what_the_tuning_took() -> None:
    choice = choose(RECORDS)
    assert tuning_s(RECORDS, (1, 2, 3), scout_s=12.0) == pytest.approx(3 * 34.1 + 12.0)
    assert "3 trials and a scout run took 114 s" in cost_text(114.3, (1, 2, 3), choice, scouted=True)
