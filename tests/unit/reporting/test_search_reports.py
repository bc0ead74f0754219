"""A search as reports tell it: on a terminal and in report.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from support.hunts import BASELINE, DEAD, FASTEST, GUESS, IMPORTANCE, RECORDS, SMALL, SPACE, a_hunt, an_end, predicted
from support.studies import a_report, a_trial
from support.walks import ASKED, a_walk
from vtune.analysis.search.trust import mistrust
from vtune.domain.advice import Advice
from vtune.domain.record import TrialRecord
from vtune.domain.search import Hunt, Importance
from vtune.reporting.markdown import markdown
from vtune.reporting.phases_of_study import phases_of
from vtune.reporting.report_panel import report_panel
from vtune.reporting.search_of_study import search_of
from vtune.reporting.study_report import StudyReport


def report(hunt: Hunt | None = None, records: Any = RECORDS, **fields: Any) -> StudyReport:
    search = search_of(hunt or an_end(), SPACE, trials=20, importance=IMPORTANCE, **fields)
    return a_report(*records, search=search)


def on_a_terminal(found: StudyReport, *, width: int = 100, brief: bool = False) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"), color_system=None)  # noqa: SIM115
    console.print(report_panel(found, brief=brief))
    return console.export_text()


def flat(text: str) -> str:
    return " ".join(text.replace("│", " ").replace("─", "").split())


@pytest.mark.parametrize("tell", [markdown, on_a_terminal])
def test_it_says_why_it_ended_which_knob_mattered_and_what_to_run_with_less_memory(tell: Any) -> None:
    text = flat(tell(report(left_out=frozenset({7}))).replace("|", " "))
    for part in (
        "search, sampler auto, 4 of 20 trials",
        "nothing untried can win more than 2 %: 16 of 20 trials given back",
        "40 settings of 3 knobs; 6 predicted over a limit; 2 fell with what failed",
        "the model and its trials differ by 30 %",
        "trial 7 ran another command, config or code than the search: it is not compared",
        "workers 4.00× 5.50× 92%",
        "prefetch_factor 1.04× 1.04× 3%",
        "RAM is needed elsewhere",
        "1 your own 9.8 25% 1 GiB of RAM",
        "3 workers=2 19.6 50% 2 GiB of RAM",
        "2 workers=4 39.2 100% 4 GiB of RAM",
        "1 of 2 trials came inside of the interval that was predicted (95 % should)",
        "3 30 (27 to 33) 19.6 0.65×, outside",
    ):
        assert part in text or part.replace("=", "&#61;") in text or part.replace("_", "&#95;") in text, (
            part + "\n" + text
        )


def test_a_brief_telling_leaves_the_table_of_predictions_to_the_document() -> None:
    brief, whole = on_a_terminal(report(), brief=True), on_a_terminal(report())
    assert "came inside of the interval" in flat(brief) and "0.65×" not in brief and "0.65×" in whole


def test_the_document_has_the_space_and_what_was_not_turned() -> None:
    text = markdown(report())
    assert "workers: 0, 1, 2, 4, 8" in text and "2, 4 (with workers only)" in text
    assert "1 × 2, 2 × 1" in text and "not turned: pin" in text


def test_a_search_that_is_not_at_its_end_says_how_to_go_on() -> None:
    text = flat(on_a_terminal(report(a_hunt())))
    assert "not at its end: the same vtune search goes on" in text and "given back" not in text
    confirming = a_hunt(stage="confirm", ended="nothing untried wins more", given_back=16)
    text = flat(on_a_terminal(report(confirming)))
    assert "its winner is not confirmed yet: the same vtune search goes on (nothing untried wins more: 16 of" in text
    assert "not at its end" not in text
    assert "stopped: the baseline crashed" in flat(on_a_terminal(report(an_end(stopped="the baseline crashed"))))


def test_what_more_trials_may_bring_is_told_where_none_were_given_back() -> None:
    used_up = an_end(ended="20 trials are used up", given_back=0, next_best=(GUESS,))
    text = flat(on_a_terminal(report(used_up)))
    assert "not tried: workers=4 prefetch_factor=4, predicted 44 samples/s (39.6 to 48.4, 95 %), 1.1× the best" in text
    small = replace(GUESS, gain=1.01)
    assert "not tried" not in flat(on_a_terminal(report(replace(used_up, next_best=(small,)))))


@pytest.mark.parametrize("tell", [markdown, on_a_terminal])
def test_a_winner_that_the_search_does_not_turn_is_told_and_all_trials_that_tuned_are_paid_for(tell: Any) -> None:
    larger = replace(a_trial(5, 80.0, asked={"batch_size": 4}), origin="phase:2:batch_size")
    found = report(an_end(trials=(1, 3), best=SMALL), records=(*RECORDS, larger))
    said = "rial 5 was set to something that this search does not turn: of what this search turns, trial 3 is the best"
    assert said in flat(tell(found)) and found.tuned_by == (1, 3, 2, 4, 5)
    assert "does not turn: of what" not in flat(tell(report()))


@pytest.mark.parametrize("tell", [markdown, on_a_terminal])
def test_a_longer_launch_that_lived_on_stock_confirms_nothing_and_that_is_said(tell: Any) -> None:
    fed = replace(FASTEST.measurement, fed_from_stock=True)
    proof = replace(FASTEST, trial=5, origin="confirm", reason="once more, for longer", measurement=fed)
    text = flat(tell(report(records=(*RECORDS, proof))))
    assert "a longer launch of trial 2's settings, lived on batches that lay ready before it" in text
    assert "confirms no rate" not in flat(tell(report()))


def test_a_knob_that_no_law_is_known_for_is_named() -> None:
    text = flat(on_a_terminal(report()))
    assert "not told, since the model has no law for it: batch_size" in text


def test_no_advice_is_repeated_that_a_trial_has_answered() -> None:
    advice = (
        Advice("the queue is short", asks={"workers": 4, "prefetch_factor": 4}),
        Advice("more of them", asks={"workers": 2}),
        Advice("the disk is slow"),
    )
    fastest = replace(FASTEST, diagnosis=replace(FASTEST.diagnosis, advice=advice))
    text = flat(on_a_terminal(report(records=(BASELINE, fastest, SMALL, DEAD))))
    assert "the queue is short" in text and "the disk is slow" in text and "more of them" not in text


def test_a_model_that_is_wrong_is_called_so() -> None:
    again = [replace(SMALL, trial=number, settings={**SMALL.settings, "prefetch_factor": number}) for number in (5, 6)]
    text = flat(on_a_terminal(report(records=(*RECORDS, *again))))
    assert "The model was wrong about this training: trust what was measured" in text
    assert "The model was wrong" not in flat(on_a_terminal(report()))
    going_on = flat(on_a_terminal(report(a_hunt(), records=(*RECORDS, *again))))
    assert "The model is wrong about this training: trust what was measured" in going_on
    # What neighbours took is not the model's fault.
    busy = [
        replace(one, measurement=replace(one.measurement, others_cores=1.8, tree_cores=0.2))
        for one in (*RECORDS, *again)
    ]
    text = flat(on_a_terminal(report(records=busy)))
    assert "Others kept the cores busy meanwhile" in text and "The model" not in text


@pytest.mark.parametrize("tell", [markdown, on_a_terminal])
def test_a_model_that_is_wrong_tells_of_no_knob(tell: Any) -> None:
    again = [replace(SMALL, trial=number, settings={**SMALL.settings, "prefetch_factor": number}) for number in (5, 6)]
    text = flat(tell(report(records=(*RECORDS, *again))))
    assert "5.50×" not in text
    assert "hich knob mattered: not told, 1 of 4 predictions of the model came inside of their interval" in text


@pytest.mark.parametrize("tell", [markdown, on_a_terminal])
def test_fewer_than_three_measured_trials_tell_of_no_knob(tell: Any) -> None:
    text = flat(tell(report(records=(BASELINE, FASTEST))))
    assert "hich knob mattered: not told, only 2 trials were measured, it takes 3" in text and "5.50×" not in text


@pytest.mark.parametrize("tell", [markdown, on_a_terminal])
def test_a_knob_that_no_trial_turned_is_told_by_the_model_alone(tell: Any) -> None:
    names = ("pinning", "prefetching")
    never = tuple(Importance(knob=name, over_own=1.0, over_worst=1.1, turned=False) for name in names)
    search = search_of(an_end(), SPACE, trials=20, importance=(*IMPORTANCE, *never))
    text = flat(tell(a_report(*RECORDS, search=search)))
    assert "ot turned in any trial that gave a rate: by the model alone: pinning, prefetching" in text
    assert "by the model alone" not in flat(tell(report()))


def foretold_trial(trial: int, rate: float, foreseen: float) -> TrialRecord:
    asked = {"workers": 1 + trial}
    return a_trial(trial, rate, asked=asked, whole=False, origin="search", predicted=predicted(foreseen))


@pytest.mark.parametrize("tell", [markdown, on_a_terminal])
def test_one_page_has_one_verdict_on_the_model_in_the_tense_of_its_search(tell: Any) -> None:
    rates = ((2, 20.0, 20.0), (3, 25.0, 25.0), (4, 52.0, 40.0), (5, 45.0, 30.0))
    records = (BASELINE, *(foretold_trial(*one) for one in rates))
    doubt = mistrust(records)
    assert doubt is not None
    end = an_end(trials=(1, 2, 3, 4, 5), remarks=("another thing", doubt.text))
    text = flat(tell(report(end, records)))
    assert "another thing" in text and "every second trial is" not in text and "had said of itself: every" not in text
    assert "2 of 4 trials came inside of the interval that was predicted (95 % should)" in text
    assert "typically 14% off, at most 50% (trial 5)" in text
    assert "The model was wrong about this training: every second trial after that was Optuna's; trust what" in text
    going_on = flat(tell(report(a_hunt(trials=(1, 2, 3, 4, 5), remarks=(doubt.text,)), records)))
    assert "The model is wrong about this training: every second trial is Optuna's; trust what" in going_on


def test_what_is_off_by_times_is_no_percentage() -> None:
    wild = replace(SMALL, predicted=predicted(80.0), trial=5, settings={**SMALL.settings, "workers": 3})
    text = flat(on_a_terminal(report(records=(BASELINE, wild))))
    # 80 over the 19.6 that it made.
    assert "0 of 1 trial came inside" in text and "typically 4.1 times off" in text


def test_shares_of_optuna_that_too_few_trials_allow_are_said_to_be_the_models() -> None:
    text = flat(on_a_terminal(report(an_end(sampler="tpe"))))
    assert "the differences among all that fits (too few trials fit for Optuna's own)" in text
    assert "Optuna's own" not in flat(on_a_terminal(report()))
    optuna = tuple(replace(one, by="optuna") for one in IMPORTANCE)
    search = search_of(an_end(sampler="tpe"), SPACE, trials=20, importance=optuna)
    text = flat(on_a_terminal(a_report(*RECORDS, search=search)))
    assert "what sets the best apart, by Optuna" in text and "too few" not in text


def test_phases_show_fronts_and_predictions_too_and_probes_alone_do_not() -> None:
    walked = a_report(*RECORDS, phases=phases_of(a_walk(trials=(1, 2, 3)), ASKED))
    for text in (flat(on_a_terminal(walked)), markdown(walked)):
        assert "RAM is needed elsewhere" in text and "came inside of the interval" in text
    alone = a_report(BASELINE, replace(FASTEST, predicted=None))
    assert "needed elsewhere" not in on_a_terminal(alone) and "needed elsewhere" not in markdown(alone)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_row_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, on_a_terminal(report(), width=width).splitlines())) <= width


def test_words_of_a_training_do_not_reach_a_terminal_or_a_document_as_markup() -> None:
    hostile = an_end(remarks=("\x1b[31m<b>red</b>",), ended="[x](http://y)")
    found = report(hostile)
    assert "\x1b" not in on_a_terminal(found) and "<b>" not in markdown(found) and "](http" not in markdown(found)
