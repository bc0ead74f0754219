"""What became of a launch, in words and as JSON: rate and time, each against its promise."""

from __future__ import annotations

from dataclasses import replace

from vtune.domain.launch import Achieved, LaunchResult, Promise
from vtune.domain.trial import TrialStatus
from vtune.reporting.launch_words import ended_lines, launch_to_json

DONE = LaunchResult(
    study="demo", launch=1, settings={}, status="completed", ended=TrialStatus.COMPLETED, detail=None,
    promise=Promise(trial=1, samples_per_s=20.0, samples_per_s_whole_run=19.0, run_s=1000.0, steps=1000),
    achieved=Achieved(steps=1000, samples_per_s=19.0, samples_per_s_whole=18.0, seconds=1100.0, left_s=0.0),
)  # fmt: skip
STOPPED = replace(
    DONE, status="stopped", ended=TrialStatus.INTERRUPTED, achieved=replace(DONE.achieved, steps=400, left_s=700.0)
)


def test_the_time_of_a_run_that_completed_is_set_against_the_promised_one() -> None:
    assert "whole run: 18.3 min, 16.7 min promised (+10.0%)" in list(ended_lines(DONE))
    fewer = replace(DONE, achieved=replace(DONE.achieved, steps=600))
    assert "whole run with 600 of 1000 steps: 18.3 min, 16.7 min promised (+10.0%)" in list(ended_lines(fewer))
    told = launch_to_json(DONE, 0)
    assert (told["promised_run_s"], told["run_s"], told["seconds"], told["steps_at_end"]) == (1000, 1100, 1100, 1000)


def test_of_a_run_that_was_stopped_it_is_what_the_whole_would_have_taken() -> None:
    assert "whole run, at the pace so far: 30 min, 16.7 min promised (+80.0%)" in list(ended_lines(STOPPED))
    assert launch_to_json(STOPPED, 130)["run_s"] == 1800.0


def test_what_is_not_known_is_not_compared() -> None:
    lines = list(ended_lines(replace(STOPPED, achieved=replace(STOPPED.achieved, left_s=None))))
    assert not any("whole run" in line for line in lines)
    unknown = replace(DONE, promise=replace(DONE.promise, run_s=None))
    assert not any("whole run" in line for line in ended_lines(unknown))


def test_what_is_only_known_to_be_the_least_says_so_wherever_it_stands() -> None:
    least = replace(DONE, achieved=replace(DONE.achieved, steps=600, or_more=True))
    lines = list(ended_lines(least))
    assert lines[0].endswith("600 steps or more") and "18 or more achieved, 19 promised" in lines[2]
    assert lines[3].startswith("whole run with 600 or more of 1000 steps:")
    assert launch_to_json(least, 0)["steps_are_the_least"] is True


def test_what_a_training_printed_moves_no_cursor() -> None:
    foreign = replace(DONE, status="failed", detail="ValueError: \x1b[2J\x1b]0;pwn\x07", next_command="vtune \x1b[31m")
    assert not any("\x1b" in line or "\x07" in line for line in ended_lines(foreign))
