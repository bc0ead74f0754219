"""Other programs on every progress display: who is waited for, which trial they disturbed, and its numbers marked."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from support.made_up import an_experiment
from support.others import disturbed, others
from support.walks import ASKED, BASELINE, a_walk
from vtune.cli.live import Progress
from vtune.cli.live_phases import PhaseProgress
from vtune.cli.live_search import SearchProgress
from vtune.domain.progress import Notice, TrialDisturbed, WaitingForQuiet, WalkMoved
from vtune.search import AskedSearch

WAITING = WaitingForQuiet(others=others(1.9, 2.0, 412, 977), left_s=59.0)
DISTURBED = TrialDisturbed(trial=7, others=others(1.9, 2.0, 412))


@pytest.mark.parametrize("display", ["probe", "phase", "search"])
@pytest.mark.parametrize(("event", "words"), [(WAITING, ("59 s", "1.9 of 2 cores", "pid 977")), (DISTURBED, ("7",))])
def test_who_is_waited_for_is_told_in_one_line(display: str, event: Notice, words: tuple[str, ...]) -> None:
    shown = io.StringIO()
    console = Console(file=shown, width=200)
    displays = {
        "probe": lambda: Progress(console),
        "phase": lambda: PhaseProgress(console, ASKED, an_experiment()),
        "search": lambda: SearchProgress(console, AskedSearch(), an_experiment()),
    }
    with displays[display]() as progress:
        progress(event)
    assert shown.getvalue().count("\n") == 1 and all(word in shown.getvalue() for word in (*words, "pid 412 ffmpeg"))


def test_a_baseline_from_a_busy_machine_is_shown_with_its_mark() -> None:
    shown, busy = io.StringIO(), disturbed(BASELINE)
    busy = replace(busy, measurement=replace(busy.measurement, samples_per_s_whole_run=None))
    with PhaseProgress(Console(file=shown, width=200), ASKED, an_experiment()) as progress:
        progress(WalkMoved(walk=a_walk(baseline=busy, best=busy, phases=(), trials=(1,)), records=(busy,)))
    assert "your own settings: 10 samples/s (busy machine)" in shown.getvalue()
