"""A wait for other programs, and a trial that they disturbed: one line each, on every progress display."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from support.made_up import an_experiment
from support.others import others
from support.walks import ASKED
from vtune.cli.live import Progress
from vtune.cli.live_phases import PhaseProgress
from vtune.cli.live_search import SearchProgress
from vtune.domain.progress import Notice, TrialDisturbed, WaitingForQuiet
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
