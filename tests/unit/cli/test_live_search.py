"""What stands on stderr while a search runs: on a terminal of 80 columns, piped, and without colour."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from support.hunts import BASELINE, DEAD, FASTEST, RECORDS, SMALL, SPACE, a_hunt, an_end
from support.screen import as_it_stands
from support.studies import a_trial
from vtune.cli.live_search import SearchProgress
from vtune.domain.experiment import Experiment, Limit, Limits, Workload
from vtune.domain.progress import HuntMoved, TrialFinished, TrialProgress, TrialStarted
from vtune.domain.record import Measurement, TrialRecord
from vtune.domain.search import Hunt, Space
from vtune.domain.trial import CONFIRMATIONS, Proposal, RaceLeg, TrialSpec
from vtune.search import AskedSearch

EXPERIMENT = Experiment(
    study="demo",
    workload=Workload(command=("python", "train.py"), cwd=Path("."), config={"training": {"workers": 1}}),
    limits=Limits(ram=Limit(bytes=2**34, text="16GiB")),
)
FIRST = Proposal(settings={}, reason="the current settings", origin="search")
START = Hunt(sampler="auto", stage="baseline", proposal=FIRST, baseline=None, best=None, settings={}, left=(1, 42))


def a_spec(record: TrialRecord, **fields: object) -> TrialSpec:
    spec = TrialSpec(
        trial=record.trial, origin=record.origin, reason=record.reason, settings=dict(record.asked or {}), effects=(),
        command=("python", "train.py"), cwd=".", env={}, token="t", predicted=record.predicted,
    )  # fmt: skip
    return replace(spec, **fields)


class Screen:
    def __init__(self, *, terminal: bool, width: int = 80, colour: bool = False, quiet: bool = False) -> None:
        self.file = io.StringIO()
        console = Console(
            file=self.file, width=width, highlight=False, force_terminal=terminal, quiet=quiet,
            color_system="standard" if colour else None,
        )  # fmt: skip
        self.progress = SearchProgress(console, AskedSearch(), EXPERIMENT)

    @property
    def text(self) -> str:
        return as_it_stands(self.file.getvalue())


def search_it(screen: Screen) -> None:
    show, history = screen.progress, list[TrialRecord]()

    def move(hunt: Hunt) -> None:
        show(HuntMoved(hunt=hunt, space=SPACE, records=tuple(history)))

    def run(record: TrialRecord) -> None:
        record = replace(record, reason="the next of Optuna's tpe") if record.asked else record
        show(TrialStarted(spec=a_spec(record)))
        show(TrialProgress(spec=a_spec(record), phase="starting", steps=0, steps_wanted=50, seconds=1.0))
        seen = Measurement(samples_per_s=record.measurement.samples_per_s)
        show(TrialProgress(spec=a_spec(record), phase="stepping", steps=23, steps_wanted=50, seconds=12.0,
                           provisional=seen, ram_bytes=2**30))  # fmt: skip
        history.append(record)
        show(TrialFinished(record=record))

    with show:
        move(START)
        for counted, (record, best) in enumerate(
            [(BASELINE, BASELINE), (FASTEST, FASTEST), (SMALL, FASTEST), (DEAD, FASTEST)], 1
        ):
            run(record)
            done = tuple(one.trial for one in history)
            move(a_hunt(best=best, trials=done, counted=counted, left=(1, 42 - counted)))
        move(an_end())


@pytest.mark.parametrize("terminal", [True, False])
def test_the_space_comes_first_then_each_trial_with_what_was_predicted_and_what_came(terminal: bool) -> None:
    screen = Screen(terminal=terminal)
    search_it(screen)
    text = " ".join(screen.text.split())
    order = [
        "search, sampler auto (by vtune's own model of the training), at most 20 trials, your own settings among them",
        "4 settings of 3 knobs workers: 0, 1, 2, 4, 8 prefetch_factor: 2, 4 (with workers only)",
        "batch_size × accumulate_steps: 1 × 2, 2 × 1",
        "not turned: pin_memory (--dry-run says why)",
        "limits: RAM 16GiB",
        "at most 20 trials and a scout run of at most 3 min each",
        "your own settings: 9.8 samples/s, waiting for data 83% of the time (trial 1)",
        "at most 19 trials and a scout run of about",
        "✓ best so far, workers=4: 39 (35.1 to 42.9) predicted → 39.2 samples/s, 4× yours (trial 2)",
        "· workers=2: 30 (27 to 33) predicted → 19.6 samples/s, 2× yours (trial 3)",
        "✗ workers=8: out of ram: stopped by vtune: 24 GiB of RAM in use (trial 4)",
    ]
    places = [text.find(part) for part in order]
    assert -1 not in places, order[places.index(-1)] + "\n" + screen.text
    assert places == sorted(places)
    assert all(text.count(part) == 1 for part in order)


def test_piped_there_is_a_line_for_each_trial_and_no_escape_code() -> None:
    screen = Screen(terminal=False)
    search_it(screen)
    written = screen.file.getvalue()
    assert "\x1b" not in written and "\r" not in written
    assert "  trial 1 of 20: the current settings\n" in written
    assert re.search(
        r"\n  trial 3 of 20 \(\d+ s to \d+ min left, best so far 39.2 samples/s, 4× yours\):"
        r" workers=2: the next of Optuna's tpe, predicted 30 \(27 to 33\) samples/s\n",
        written,
    ), written
    assert "23 of 50 steps" not in written


def test_on_a_terminal_the_running_trial_has_two_rows_that_are_drawn_over() -> None:
    screen = Screen(terminal=True)
    search_it(screen)
    assert "  ▸ workers=2: 23 of 50 steps · 12 s · so far 20 samples/s · RAM 1 GiB" in screen.file.getvalue()
    assert "trial 3 of 20 · predicted 30 (27 to 33) · " in screen.file.getvalue()
    assert "▸" not in screen.text


def test_many_settings_leave_room_for_what_moves() -> None:
    screen = Screen(terminal=True)
    asked = {"workers": 3, "prefetch_factor": 8, "persistent_workers": True, "pin_memory": True}
    spec = a_spec(replace(FASTEST, asked=asked))
    with screen.progress as show:
        show(HuntMoved(hunt=a_hunt(), space=SPACE, records=RECORDS))
        show(TrialStarted(spec=spec))
        seen = Measurement(samples_per_s=20.0)
        show(TrialProgress(spec=spec, phase="stepping", steps=23, steps_wanted=50, seconds=12.0,
                           provisional=seen, ram_bytes=2**30))  # fmt: skip
    written = screen.file.getvalue()
    assert "  ▸ workers=3 …: 23 of 50 steps · 12 s · so far 20 samples/s · RAM 1 GiB" in written


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("colour", [True, False])
def test_no_row_is_wider_than_the_terminal_and_colour_carries_nothing(width: int, colour: bool) -> None:
    screen, plain = Screen(terminal=True, width=width, colour=colour), Screen(terminal=True, width=width)
    search_it(screen)
    search_it(plain)
    assert max(map(len, screen.text.splitlines())) <= width
    assert screen.text == plain.text


def test_confirmations_are_announced_once_and_each_of_their_launches_told() -> None:
    screen = Screen(terminal=False)
    leg = RaceLeg(id="r", round=1, contestant=1, contestants=2, rounds=8)
    proof = replace(a_trial(5, 39.0, asked={"workers": 4}, reason="once more, for longer"), origin="confirm")
    round_ = replace(proof, trial=6, race=leg, reason="round 1 of 8: workers=4")
    hunt = a_hunt(stage="confirm", left=(1, 22))
    with screen.progress as show:
        show(HuntMoved(hunt=hunt, space=SPACE, records=RECORDS))
        for at, record in enumerate((proof, round_), 1):
            show(TrialStarted(spec=a_spec(record, race=record.race)))
            show(TrialFinished(record=record))
            show(HuntMoved(hunt=hunt, space=SPACE, records=(*RECORDS, *(proof, round_)[:at])))
    text = screen.text
    assert text.count("confirming: the winner once more, for longer") == 1
    assert text.count("confirming: the winner against what it has to beat, launched in turns") == 1
    assert "  · round 1 of 8: workers=4: 38.2 samples/s, 3.9× yours (trial 6)" in text
    assert "trial 6 of 20" not in text


def test_each_purpose_of_a_confirming_launch_is_announced_in_its_own_words() -> None:
    announced = set()
    for origin in CONFIRMATIONS:
        screen = Screen(terminal=False)
        with screen.progress as show:
            show(HuntMoved(hunt=a_hunt(stage="confirm", left=(1, 22)), space=SPACE, records=RECORDS))
            show(TrialStarted(spec=a_spec(replace(a_trial(5, 39.0, reason="again"), origin=origin))))
        announced |= {line for line in screen.text.splitlines() if line.startswith("confirming: ")}
    assert len(announced) == len(CONFIRMATIONS)


def test_what_the_journal_has_already_is_named_and_not_told_again() -> None:
    screen = Screen(terminal=False)
    with screen.progress as show:
        show(HuntMoved(hunt=a_hunt(), space=SPACE, records=RECORDS))
    assert "known already: trials 1, 2, 3, 4" in screen.text and "→" not in screen.text


def test_a_space_that_the_first_trial_tells_more_of_is_shown_anew() -> None:
    screen = Screen(terminal=False)
    with screen.progress as show:
        show(HuntMoved(hunt=START, space=Space(dimensions=SPACE.dimensions[:1], settings=({},)), records=()))
        show(HuntMoved(hunt=a_hunt(trials=(1,), counted=1), space=SPACE, records=(BASELINE,)))
    assert "  1 setting of 1 knob\n" in screen.text
    assert "by what your training runs with:\n  4 settings of 3 knobs; 6 predicted over a limit" in screen.text


def test_quiet_says_nothing_and_keeps_what_it_was_told() -> None:
    screen = Screen(terminal=False, quiet=True)
    search_it(screen)
    assert screen.file.getvalue() == ""
    assert screen.progress.hunt is not None and len(screen.progress.records) == len(RECORDS)


def test_words_of_a_training_do_not_reach_the_terminal_as_codes() -> None:
    screen = Screen(terminal=True)
    dead = replace(DEAD, detail="\x1b[31mred\x07")
    with screen.progress as show:
        show(HuntMoved(hunt=START, space=SPACE, records=()))
        show(HuntMoved(hunt=a_hunt(), space=SPACE, records=(BASELINE, dead)))
    assert "\x1b[31m" not in screen.file.getvalue() and "\x07" not in screen.file.getvalue()


def test_an_interruption_is_told_once_with_the_way_out_at_once() -> None:
    screen = Screen(terminal=False)
    with screen.progress as show:
        show(HuntMoved(hunt=START, space=SPACE, records=()))
        show.interrupted()
        assert "Ctrl-C" not in screen.text
        show(TrialStarted(spec=a_spec(BASELINE)))
        show.interrupted()
        show.interrupted()
    assert screen.text.count("ending the trial, what was measured is kept; Ctrl-C once more leaves at once") == 1


def test_a_trial_over_a_limit_is_no_success_however_fast_it_was() -> None:
    screen = Screen(terminal=False)
    hunt = a_hunt(best=SMALL, trials=(1, 2, 3), over={2: "needs 4 GiB of RAM, the limit is 3 GiB"})
    with screen.progress as show:
        show(HuntMoved(hunt=START, space=SPACE, records=()))
        show(HuntMoved(hunt=hunt, space=SPACE, records=RECORDS[:3]))
    text = " ".join(screen.text.split())
    assert "✗ workers=4: 39 (35.1 to 42.9) predicted → 39.2 samples/s, 4× yours (trial 2), but needs 4 GiB of" in text
    assert "✓ best so far, workers=2" in text


def test_what_is_left_out_of_the_journal_is_named_before_anything_runs() -> None:
    screen = Screen(terminal=False)
    with screen.progress as show:
        show(HuntMoved(hunt=replace(START, left_out=(3,)), space=SPACE, records=RECORDS))
    assert "trial 3 ran another command, config or code than the search: it is not compared" in screen.text


def test_of_a_space_that_grows_only_what_came_and_went_is_told() -> None:
    screen = Screen(terminal=False)
    workers = replace(SPACE.dimensions[0], choices=tuple({"workers": n} for n in (0, 1, 2, 4, 12)))
    grown = replace(SPACE, dimensions=(workers, *SPACE.dimensions[1:]), settings=(*SPACE.settings, {"workers": 12}))
    with screen.progress as show:
        show(HuntMoved(hunt=START, space=SPACE, records=()))
        show(HuntMoved(hunt=a_hunt(trials=(1,)), space=grown, records=RECORDS[:1]))
    text = " ".join(screen.text.split())
    changed = "also workers: 12; no longer workers: 8; 5 settings of 3 knobs"
    assert f"what leads now changes what is tried: {changed}" in text
    assert screen.text.count("prefetch_factor: 2, 4") == 1


def test_what_was_asked_for_by_set_is_not_called_the_users_own() -> None:
    screen = Screen(terminal=False)
    screen.progress = SearchProgress(
        Console(file=screen.file, width=80, highlight=False),
        AskedSearch(),
        replace(EXPERIMENT, settings={"workers": 1}),
    )
    with screen.progress as show:
        show(HuntMoved(hunt=START, space=SPACE, records=()))
        show(HuntMoved(hunt=a_hunt(trials=(1,)), space=SPACE, records=RECORDS[:1]))
    assert "your settings with workers=1: 9.8 samples/s" in screen.text
