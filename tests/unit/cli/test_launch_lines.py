"""How far a full run is, in lines."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console

from vtune.cli.launch_lines import LaunchLines, progress_text
from vtune.domain.launch import Achieved
from vtune.launcher.run import LaunchProgress

GOING = LaunchProgress(
    launch=1, attempt=1, pid=7, steps=138, steps_at_end=300, achieved=Achieved(steps=138, samples_per_s=185.0),
    promised=191.0, ram_bytes=None, seconds=67.3, hang_after_s=120.0,
)  # fmt: skip
STILL = replace(GOING, still_s=56.0)


def test_a_run_that_stands_still_is_told_so_instead_of_its_rate() -> None:
    assert progress_text(GOING) == "step 138 of 300 after 67.3 s · 185 samples/s, 97% of the 191 promised"
    assert progress_text(STILL) == (
        "step 138 of 300 after 67.3 s · no step, batch or checkpoint for 56 s;"
        " with nobody of it at work, a hang is called after 120 s"
    )


def test_that_it_stands_still_does_not_wait_for_the_next_line_and_comes_once() -> None:
    out = StringIO()
    lines = LaunchLines(Console(file=out, width=200))
    for event in (GOING, STILL, STILL, GOING):
        lines(event)
    assert [line[9:].startswith("step 138") for line in out.getvalue().splitlines()] == [True]
    assert "no step" in out.getvalue()
