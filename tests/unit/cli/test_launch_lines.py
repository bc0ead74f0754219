"""How far a full run is, in lines."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console

from vtune.cli.launch_lines import LaunchLines, progress_text
from vtune.domain.launch import Achieved
from vtune.launcher.telling import LaunchProgress

NOW = LaunchProgress(
    steps=400, steps_at_end=1000, promised=20.0, promised_run_s=1000.0, seconds=500.0, hang_after_s=120.0,
    achieved=Achieved(steps=400, samples_per_s=19.0, seconds=500.0, left_s=700.0),
)  # fmt: skip
STILL = replace(NOW, still_s=56.0)


def test_rate_and_time_are_told_against_what_was_promised() -> None:
    assert progress_text(NOW) == (
        "step 400 of 1000 after 500 s · 19 samples/s, 95% of the 20 promised"
        " · 11.7 min left: 20 min for the whole run, 16.7 min promised"
    )


def test_where_the_length_is_not_known_no_time_is_told() -> None:
    unknown = replace(NOW, steps_at_end=None, promised_run_s=None, achieved=replace(NOW.achieved, left_s=None))
    assert progress_text(unknown) == "step 400 after 500 s · 19 samples/s, 95% of the 20 promised"


def test_a_run_that_stands_still_is_told_so_instead_of_its_rate() -> None:
    assert progress_text(STILL) == (
        "step 400 of 1000 after 500 s · no step, batch or checkpoint for 56 s;"
        " with nobody of it at work, a hang is called after 120 s"
    )


def test_that_it_stands_still_does_not_wait_for_the_next_line_and_comes_once() -> None:
    out = StringIO()
    lines = LaunchLines(Console(file=out, width=200))
    for event in (NOW, STILL, STILL, NOW):
        lines(event)
    assert [line[9:].startswith("step 400") for line in out.getvalue().splitlines()] == [True]
    assert "no step" in out.getvalue()
