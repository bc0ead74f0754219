"""What stands on stderr while a plan is walked: on a terminal of 80 columns, piped, and without colour."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from support.screen import as_it_stands
from support.studies import a_trial
from support.walks import BASELINE, FASTER, FASTEST, PLAN, PREDICTED, RECORDS, a_rung, a_walk, an_end
from vtune.cli.live_phases import PhaseProgress
from vtune.domain.experiment import Experiment, Limit, Limits, Workload
from vtune.domain.phases import AskedPhases, PhaseOutcome, Walk
from vtune.domain.progress import TrialFinished, TrialProgress, TrialStarted, WalkMoved
from vtune.domain.record import Measurement, TrialRecord
from vtune.domain.trial import Proposal, RaceLeg, TrialSpec

EXPERIMENT = Experiment(
    study="demo",
    workload=Workload(
        command=("python", "train.py"), cwd=Path("."), config={"training": {"workers": 1, "train_batch_size": 1}}
    ),
    limits=Limits(ram=Limit(bytes=2**34, text="16GiB")),
)
START = Walk(
    stage="baseline", proposal=Proposal(settings={}, reason="the current settings", origin="phase:0:baseline"),
    baseline=None, settings={}, best=None, left=(1, 26),
)  # fmt: skip


def a_spec(trial: int, reason: str, **fields: object) -> TrialSpec:
    spec = TrialSpec(
        trial=trial, origin="phase:1:workers", reason=reason, settings={}, effects=(), command=("python", "train.py"),
        cwd=".", env={}, token="t",
    )  # fmt: skip
    return replace(spec, **fields)


class Screen:
    def __init__(self, *, terminal: bool, width: int = 80, colour: bool = False, quiet: bool = False) -> None:
        self.file = io.StringIO()
        console = Console(
            file=self.file, width=width, highlight=False, force_terminal=terminal, quiet=quiet,
            color_system="standard" if colour else None,
        )  # fmt: skip
        self.progress = PhaseProgress(console, AskedPhases(plan=PLAN), EXPERIMENT)

    @property
    def text(self) -> str:
        return as_it_stands(self.file.getvalue())


def walk_it(screen: Screen) -> None:
    show, history = screen.progress, list[TrialRecord]()

    def move(walk: Walk) -> None:
        show(WalkMoved(walk=walk, records=tuple(history)))

    def run(spec: TrialSpec, record: TrialRecord) -> None:
        show(TrialStarted(spec=spec))
        show(TrialProgress(spec=spec, phase="starting", steps=0, steps_wanted=50, seconds=1.0))
        seen = Measurement(samples_per_s=record.measurement.samples_per_s)
        show(TrialProgress(spec=spec, phase="stepping", steps=23, steps_wanted=50, seconds=12.0, provisional=seen,
                           ram_bytes=2**30))  # fmt: skip
        history.append(record)
        show(TrialFinished(record=record))

    end = an_end()
    workers, batch, prefetch = end.phases
    with show:
        move(START)
        run(a_spec(1, "the current settings", origin="phase:0:baseline"), BASELINE)
        first = PhaseOutcome(phase=workers.phase, rungs=(a_rung(turned={"workers": 2}),))
        two = Proposal(settings={"workers": 2}, reason="phase 1 of 3, workers 1 → 2", origin="phase:1:workers")
        move(a_walk(proposal=two, phases=(first,), settings={}, best=BASELINE, trials=(1,), left=(1, 25)))
        run(a_spec(2, "phase 1 of 3, workers 1 → 2"), FASTER)
        second = replace(first, rungs=(workers.rungs[0], a_rung(turned={"workers": 4})))
        four = replace(two, reason="phase 1 of 3, workers 2 → 4")
        move(a_walk(proposal=four, phases=(second,), settings={"workers": 2}, best=FASTER, trials=(1, 2), left=(1, 24)))
        run(a_spec(3, "phase 1 of 3, workers 2 → 4"), FASTEST)
        history[:] = RECORDS
        move(replace(end, phases=(workers, batch, prefetch)))


@pytest.mark.parametrize("terminal", [True, False])
def test_the_plan_comes_first_then_each_step_is_ticked_off_once(terminal: bool) -> None:
    screen = Screen(terminal=terminal)
    walk_it(screen)
    text = " ".join(screen.text.split())
    order = [
        "plan ladder, all 3 phases 1 workers: 1 → 2 → 4 → 6 low risk: RAM, of which each worker holds its own",
        "2 batch: batch_size 2 → 4 medium risk",
        "limits: RAM 16GiB",
        "at most 6 trials and a scout run of at most 3 min each",
        "your own settings: 9.8 samples/s, waiting for data 83% of the time (trial 1)",
        "at most 5 trials and a scout run of about",
        "phase 1 of 3, workers (low risk: RAM, of which each worker holds its own)",
        "✓ kept workers=2: 19.6 samples/s, 2.0× ± 0.1 of trial 1 (trial 2)",
        "✓ kept workers=4: 38.2 samples/s (predicted 41), 1.95× ± 0.08 of trial 2 (trial 3)",
        "✗ rolled back workers=6: out of ram: 24 GiB of RAM in use (trial 4)",
        "workers=4: 3.9× of what had won before",
        "phase 2 of 3, batch (medium risk)",
        "✗ rolled back batch_size=2",
        "phase 3 of 3, prefetch: it is set already",
        "the plan's options A workers=4 batch_size=2: predicted 41 samples/s",
    ]
    places = [text.find(part) for part in order]
    assert -1 not in places, order[places.index(-1)] + "\n" + screen.text
    assert places == sorted(places)
    assert all(text.count(part) == 1 for part in order)


def test_piped_there_is_a_line_for_each_trial_and_no_escape_code() -> None:
    screen = Screen(terminal=False)
    walk_it(screen)
    written = screen.file.getvalue()
    assert "\x1b" not in written and "\r" not in written
    assert "  trial 1 of at most 6: the current settings\n" in written
    assert re.search(
        r"\n  trial 2 of at most 6 \(at most \d+ (s|min) left, best so far 9.8 samples/s\): phase 1", written
    )
    assert "23 of 50 steps" not in written


def test_on_a_terminal_the_running_trial_has_two_rows_that_are_drawn_over() -> None:
    screen = Screen(terminal=True)
    walk_it(screen)
    assert "  ▸ workers 1 → 2: 23 of 50 steps · 12 s · so far 20 samples/s · RAM 1 GiB" in screen.file.getvalue()
    assert "trial 2 of at most 6 · at most " in screen.file.getvalue()
    assert "▸" not in screen.text


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("colour", [True, False])
def test_no_row_is_wider_than_the_terminal_and_colour_carries_nothing(width: int, colour: bool) -> None:
    screen, plain = Screen(terminal=True, width=width, colour=colour), Screen(terminal=True, width=width)
    walk_it(screen)
    walk_it(plain)
    assert max(map(len, screen.text.splitlines())) <= width
    assert screen.text == plain.text


def test_a_race_is_announced_and_each_of_its_launches_told() -> None:
    screen = Screen(terminal=False)
    leg = RaceLeg(id="r", round=1, contestant=1, contestants=2, rounds=8)
    spec = a_spec(7, "round 1 of 8: workers=4", origin="confirm", race=leg)
    proposal = Proposal(settings={"workers": 4}, reason=spec.reason, origin="confirm", race=leg)
    walk = an_end(stage="confirm", proposal=proposal, left=(4, 20))
    record = replace(a_trial(7, 39.5, asked={"workers": 4}, reason=spec.reason), race=leg)
    with screen.progress as show:
        show(WalkMoved(walk=walk, records=RECORDS))
        for event in (TrialStarted(spec=spec), TrialFinished(record=record)):
            show(event)
    text = screen.text
    assert "confirming: the winner against what it has to beat, launched in turns" in text
    assert "  trial 7, launch 1 of at most 20 (at most " in text
    assert "  round 1 of 8: workers=4: 38.7 samples/s (trial 7)" in text


def test_a_scout_run_is_no_trial_of_the_plan() -> None:
    screen = Screen(terminal=False)
    with screen.progress as show:
        show(WalkMoved(walk=START))
        show(TrialStarted(spec=a_spec(1, "which loader feeds the steps"), scout=True))
    assert "  scout run before trial 1: which loader feeds the steps" in screen.text


def test_a_journal_with_other_trials_keeps_their_numbers_and_counts_its_own() -> None:
    screen = Screen(terminal=False)
    with screen.progress as show:
        show(WalkMoved(walk=START))
        show(TrialStarted(spec=a_spec(31, "the current settings")))
    assert "  trial 31 (1 of at most 6): the current settings" in screen.text


def test_quiet_says_nothing_and_keeps_what_it_was_told() -> None:
    screen = Screen(terminal=False, quiet=True)
    walk_it(screen)
    assert screen.file.getvalue() == ""
    assert screen.progress.walk is not None and len(screen.progress.records) == len(RECORDS)


def test_words_of_a_training_do_not_reach_the_terminal_as_codes() -> None:
    screen = Screen(terminal=True)
    rung = a_rung(turned={"workers": 2}, state="rejected", why="crashed: \x1b[31mred\x07", trial=2, predicted=PREDICTED)
    walk = a_walk(phases=(PhaseOutcome(phase=PLAN.phases[0], rungs=(rung,), done=True),), trials=(1, 2))
    with screen.progress as show:
        show(WalkMoved(walk=walk, records=(BASELINE,)))
    assert "\x1b[31m" not in screen.file.getvalue() and "\x07" not in screen.file.getvalue()


@pytest.mark.parametrize("width", [45, 60, 80, 100])
def test_a_live_row_loses_whole_fields_and_no_half_of_a_number(width: int) -> None:
    screen = Screen(terminal=True, width=width)
    spec = a_spec(2, "phase 1 of 3, prefetch_factor 1 → 2")
    seen = Measurement(samples_per_s=35.4)
    with screen.progress as show:
        show(WalkMoved(walk=a_walk(), records=RECORDS))
        show(TrialStarted(spec=spec))
        show(TrialProgress(spec=spec, phase="stepping", steps=23, steps_wanted=50, seconds=12.0, provisional=seen,
                           ram_bytes=2**30))  # fmt: skip
        rows = [row for row in screen.text.splitlines() if "▸" in row]
    assert rows and all("…" not in row and not row.endswith("·") for row in rows)
    assert ("RAM 1 GiB" in rows[-1]) is (width == 100)


def test_an_interruption_is_told_once_with_the_way_out_at_once() -> None:
    screen = Screen(terminal=False)
    with screen.progress as show:
        show(WalkMoved(walk=START, records=()))
        show.interrupted()
        assert "Ctrl-C" not in screen.text
        show(TrialStarted(spec=a_spec(1, "the current settings")))
        show.interrupted()
        show.interrupted()
    assert screen.text.count("ending the trial, what was measured is kept; Ctrl-C once more leaves at once") == 1


def test_what_is_done_by_hand_is_told_when_its_phase_begins() -> None:
    screen = Screen(terminal=False)
    end = an_end()
    last = replace(end.phases[2], phase=replace(end.phases[2].phase, by_hand=("start it under torchrun",)))
    with screen.progress as show:
        show(WalkMoved(walk=replace(end, phases=(*end.phases[:2], last)), records=RECORDS))
    assert "  by hand: start it under torchrun\n" in screen.text + "\n"


def test_a_step_that_was_interrupted_is_told_once_and_again_when_it_was_run() -> None:
    screen = Screen(terminal=False)
    first, cut = a_walk().phases[0], a_rung(turned={"workers": 4}, state="interrupted", trial=3, why="it is run again")
    begun = replace(first, rungs=(first.rungs[0], cut), kept={}, why="", done=False)
    with screen.progress as show:
        for _ in range(2):
            show(WalkMoved(walk=a_walk(phases=(begun,)), records=RECORDS[:2]))
        show(WalkMoved(walk=a_walk(phases=(first,)), records=RECORDS))
    assert screen.text.count("! interrupted workers=4: it is run again (trial 3)") == 1
    assert screen.text.count("✓ kept workers=4") == 1


def test_a_baseline_that_lived_on_its_queues_is_told_as_that_and_then_the_one_that_stands_for_it() -> None:
    screen = Screen(terminal=False)
    fed = replace(BASELINE, measurement=replace(BASELINE.measurement, fed_from_stock=True))
    again = replace(BASELINE, trial=2)
    with screen.progress as show:
        show(WalkMoved(walk=a_walk(baseline=fed, best=fed, phases=(), trials=(1,)), records=(fed,)))
        show(WalkMoved(walk=a_walk(baseline=again, best=again, phases=(), trials=(1, 2)), records=(fed, again)))
    told = [line for line in screen.text.splitlines() if line.startswith("your own settings")]
    assert told[0].endswith("on batches that lay ready before: it would not last (trial 1)")
    assert len(told) == 2 and told[1].endswith("(trial 2)") and "lay ready" not in told[1]
