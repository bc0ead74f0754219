"""How far a launch is, in one line."""

from __future__ import annotations

from dataclasses import replace

from vtune.cli.launch_lines import progress_text
from vtune.domain.launch import Achieved
from vtune.launcher.run import LaunchProgress

NOW = LaunchProgress(
    steps=400, steps_at_end=1000, promised=20.0, promised_run_s=1000.0, seconds=500.0,
    achieved=Achieved(steps=400, samples_per_s=19.0, seconds=500.0, left_s=700.0),
)  # fmt: skip


def test_rate_and_time_are_told_against_what_was_promised() -> None:
    assert progress_text(NOW) == (
        "step 400 of 1000 after 500 s · 19 samples/s, 95% of the 20 promised"
        " · 11.7 min left: 20 min for the whole run, 16.7 min promised"
    )


def test_where_the_length_is_not_known_no_time_is_told() -> None:
    unknown = replace(NOW, steps_at_end=None, promised_run_s=None, achieved=replace(NOW.achieved, left_s=None))
    assert progress_text(unknown) == "step 400 after 500 s · 19 samples/s, 95% of the 20 promised"
