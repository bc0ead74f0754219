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
from vtune.domain.progress import Notice, TrialDisturbed, TrialProgress, TrialStarted, WaitingForQuiet, WalkMoved
from vtune.domain.record import Projection
from vtune.domain.trial import TrialSpec
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


@pytest.mark.parametrize("is_busy", [False, True])
def test_of_a_busy_machine_no_run_is_foretold_while_a_trial_runs(is_busy: bool) -> None:
    shown, record = io.StringIO(), disturbed(BASELINE) if is_busy else BASELINE
    seen = replace(record.measurement, projected=Projection(epoch_s=60.0, run_s=600.0))
    spec = TrialSpec(
        trial=1, origin="probe", reason="r", settings={}, effects=(), command=("a",), cwd="/", env={}, token="t"
    )
    with Progress(Console(file=shown, width=200)) as progress:
        progress(TrialStarted(spec=spec))
        progress(TrialProgress(spec=spec, phase="stepping", steps=9, steps_wanted=50, seconds=9.0, provisional=seen))
    assert "9/50 steps" in shown.getvalue() and ("busy machine" in shown.getvalue()) is is_busy
    assert ("whole run" in shown.getvalue()) is not is_busy
