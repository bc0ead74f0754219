"""Phases in the summary and in report.md."""

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from support.studies import a_report, a_trial
from support.walks import ASKED, BASELINE, FASTER, MISSED, OPTION_A, RECORDS, WORKERS, a_rung, a_walk, an_end
from vtune.domain.experiment import Limit, Limits
from vtune.domain.phases import PhaseOutcome, Walk
from vtune.domain.prediction import Prediction
from vtune.domain.record import TrialRecord
from vtune.reporting.markdown import markdown
from vtune.reporting.phase_panel import STYLES
from vtune.reporting.phase_words import STATES
from vtune.reporting.phases_of_study import phases_of
from vtune.reporting.report_panel import report_panel
from vtune.reporting.study_report import StudyReport
from vtune.reporting.summary import summarize

LIMITS = Limits(ram=Limit(bytes=24 * 2**30, text="24GiB"))


def a_phased(walk: Walk, **fields: Any) -> StudyReport:
    phases = phases_of(walk, ASKED, limits=LIMITS, **fields)
    return replace(a_report(*RECORDS, OPTION_A), phases=phases)


def shown(report: StudyReport, width: int = 80, *, brief: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(report_panel(report, brief=brief))
    return console.file.getvalue()


def flat(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_phases_fit_their_terminal_and_nothing_is_cut(width: int) -> None:
    text = shown(a_phased(an_end(), missed=MISSED), width)
    assert max(map(len, text.splitlines())) <= width and "…" not in text


def test_each_phase_is_ticked_off_in_words() -> None:
    text = flat(shown(a_phased(an_end(), missed=MISSED)))
    assert "plan ladder, all 3 phases, under RAM 24GiB" in text
    assert "phase 1: workers ✓ kept workers=2: 19.6 samples/s, 2.0× ± 0.1 of trial 1 (trial 2)" in text
    assert "✗ rolled back workers=6: out of ram" in text and "– skipped batch_size=4" in text
    assert "phase 3: prefetch: it is set already" in text and "GPU > 50 %: not judged, no GPU was seen" in text
    assert "A workers=4 batch_size=2 predicted 41 samples/s" in text and "measured 39.7 samples/s" in text
    assert "what the phases missed by the model, workers=6 batch_size=2" in text
    assert "measure what the phases missed by the model: vtune probe --study demo --set workers=6 --set" in text
    assert "6 trials took 205 s; pays back after" in text
    assert "learning rate: ×2 for SGD (linear), ×1.41 for Adam (square root)" in text


def test_a_walk_that_is_not_at_its_end_says_so_and_what_is_to_come() -> None:
    text = flat(shown(a_phased(a_walk())))
    assert "· not tried yet prefetch_factor=2" in text and "not at its end: the same vtune phase goes on" in text
    stopped = flat(shown(a_phased(an_end(stopped="trial 1, of what is set now, gives nothing to build on"))))
    assert (
        "stopped: trial 1, of what is set now, gives nothing to build on" in stopped and "not at its end" not in stopped
    )


def test_a_study_without_phases_says_nothing_of_them() -> None:
    report = a_report(*RECORDS)
    assert "phase" not in shown(report) and "## Phases" not in markdown(report)


def test_the_document_has_a_table_of_the_phases_the_options_and_what_was_missed() -> None:
    text = markdown(a_phased(an_end(), missed=MISSED, left_out=frozenset({8})))
    assert "## Phases\n\nplan ladder, all 3 phases, walked under RAM 24GiB. 6 trials took 205 s; pays back" in text
    assert "| 1 workers | workers=2 | kept | 19.6 samples/s, 2.0× ± 0.1 of trial 1 (trial 2) |" in text.replace(
        "&#61;", "="
    )
    assert "### The plan's options" in text and "### What the phases missed" in text
    assert "trial 8 ran another command, config or code than the phases: it is not compared" in text
    assert text.index("## Phases") < text.index("## Trials")
    assert "| 3 prefetch |  |  | it is set already |" in text


def test_words_of_a_journal_stay_text() -> None:
    nasty = replace(an_end(), stopped="\x1b[31m<script>`x`|y")
    text, panel = markdown(a_phased(nasty)), shown(a_phased(nasty))
    assert "\x1b" not in text + panel and "<script>" not in text


def test_where_no_step_won_and_none_could_unseen_there_is_nothing_to_gain() -> None:
    equal = [a_trial(n, 10.0 + n / 100, asked={"workers": n}, batch=1) for n in (2, 4)]
    rungs = tuple(
        a_rung(turned={"workers": record.trial}, state="rejected", trial=record.trial, why="1.00× ± 0.09")
        for record in equal
    )
    walk = an_end(phases=(PhaseOutcome(phase=WORKERS, rungs=rungs, done=True),), best=BASELINE, trials=(1, 2, 4))

    def verdict(*records: TrialRecord, walk: Walk = walk, **fields: Any) -> str:
        report = a_report(BASELINE, *records)
        return summarize(replace(report, phases=phases_of(walk, replace(ASKED, up_to=1), **fields))).verdict

    assert verdict(*equal).startswith(
        "keep your own settings (trial 1): nothing to gain by plan ladder, phase 1 of 3 (3 trials); no other"
    )

    def alone(**fields: Any) -> Walk:
        skipped = a_rung(turned={"workers": 4}, state="skipped", why="…", **fields)
        return replace(walk, phases=(PhaseOutcome(phase=WORKERS, rungs=(skipped,), done=True),), trials=(1,))

    foreseen = Prediction(samples_per_s=10.0, samples_per_s_ci95=(9.9, 10.1))
    assert verdict(walk=alone(predicted=foreseen)) == (
        "keep your own settings (trial 1): nothing to gain by plan ladder, phase 1 of 3 (1 trial)"
    )
    # What has no way into the training says nothing of what there is to gain, and neither does what failed.
    assert "nothing to gain" not in verdict(walk=alone())
    crashed = a_rung(turned={"workers": 8}, state="rejected", trial=7, why="crashed")
    assert "nothing to gain" not in verdict(*equal, walk=replace(walk, phases=(PhaseOutcome(
        phase=WORKERS, rungs=(*rungs, crashed), done=True),)))  # fmt: skip
    # What could not be told, what looks faster, what the model knows of, and what is not at its end may hide one.
    unsure = replace(equal[0], measurement=replace(equal[0].measurement, samples_per_s_ci95=(6.0, 16.0)))
    assert "nothing to gain" not in verdict(unsure, equal[1])
    assert "nothing to gain" not in verdict(a_trial(2, 10.5, asked={"workers": 2}, batch=1), equal[1])
    assert "nothing to gain" not in verdict(*equal, missed=MISSED)
    assert "nothing to gain" not in verdict(*equal, walk=replace(walk, stage="phases"))


def test_a_step_that_was_rolled_back_and_is_chosen_all_the_same_says_why() -> None:
    report = a_phased(an_end())
    assert report.choice.best is not None
    told = f"trial {report.choice.best.trial} is chosen although it was rolled back as a step"
    walk = an_end()
    step = replace(walk.phases[0].rungs[1], state="rejected", trial=report.choice.best.trial)
    rolled = replace(walk, phases=(replace(walk.phases[0], rungs=(step,)), *walk.phases[1:]))
    again = a_phased(rolled)
    assert told in flat(shown(again)) and told in markdown(again)
    kept = replace(rolled, phases=(replace(rolled.phases[0], rungs=(replace(step, state="kept"),)),))
    assert told not in flat(shown(a_phased(kept)))


def test_what_is_left_to_do_by_hand_stands_at_its_phase() -> None:
    end = an_end()
    by_hand = replace(end.phases[2], phase=replace(end.phases[2].phase, by_hand=("start it under torchrun",)))
    walk = replace(end, phases=(*end.phases[:2], by_hand))
    for text in (flat(shown(a_phased(walk))), flat(shown(a_phased(walk), brief=True)), markdown(a_phased(walk))):
        assert "by hand: start it under torchrun" in text


def test_a_table_has_the_rate_that_the_steps_are_told_with() -> None:
    text = shown(a_phased(an_end()), 120)
    [row] = (line for line in text.splitlines() if line.startswith("│ 3 "))
    assert "38.2" in row and "workers=4: 38.2 samples/s" in flat(text)


def test_the_winner_of_the_phases_is_in_the_table_and_what_a_tie_is_stands_below_it() -> None:
    others = [a_trial(n, 39.2 + n / 100, asked={"workers": 4, "threads": n}, batch=1) for n in range(10, 16)]
    phases = phases_of(an_end(best=FASTER), ASKED, limits=LIMITS)
    text = shown(replace(a_report(*RECORDS, OPTION_A, *others), phases=phases), 120)
    assert any(line.startswith("│ 2 ") for line in text.splitlines())
    assert "tie: cannot be told from trial" in flat(text)


def test_steps_that_were_just_told_are_not_told_again() -> None:
    report = a_phased(an_end(), missed=MISSED)
    text, whole = shown(report, brief=True), shown(report)
    assert "✓ kept" not in text and "phase 1: workers: workers=4: 3.9× of what had won before" in flat(text)
    assert "what the phases missed" in text and len(text.splitlines()) < len(whole.splitlines())


def test_a_launch_of_the_same_settings_is_no_row_of_its_own_after_a_walk() -> None:
    again = a_trial(7, 39.1, asked={"workers": 4}, batch=1)
    report = replace(a_report(*RECORDS, OPTION_A, again), phases=phases_of(an_end(), ASKED, limits=LIMITS))
    assert "repeated" not in shown(report, 120)


def test_why_a_rolled_back_step_is_chosen_is_the_rule_of_the_choice() -> None:
    rung = a_rung(turned={"workers": 4}, state="rejected", why="1.05× ± 0.84 of trial 2", trial=3)
    workers = replace(an_end().phases[0], rungs=(rung,))
    text = flat(shown(a_phased(an_end(phases=(workers,)))))
    assert "within 2% of the fastest" in text and "asks least of the machine" in text and "is the fastest," not in text


def test_a_step_of_any_state_can_be_shown() -> None:
    assert set(STYLES) == {word for _, word in STATES.values()}
