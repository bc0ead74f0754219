"""How an attempt of a full run ended: what exit code 0 is worth, and what a disk has to do with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtune.domain.launch import Length
from vtune.domain.trial import TrialStatus
from vtune.execution.launch_ended import Ended, against_plan, full_where

DONE = Ended(status=TrialStatus.COMPLETED, detail=None)


def of(steps: int, *, least: int | None = None, most_before: int | None = 0) -> Length:
    return Length(steps=steps, least=least or round(0.9 * steps), most_before=most_before)


def test_exit_code_0_far_from_the_planned_end_is_told_with_its_steps() -> None:
    how = against_plan(DONE, 320, of(3000))
    assert how.early and how.status is TrialStatus.COMPLETED
    assert how.detail is not None and "after 320 of 3000 steps" in how.detail


def test_a_run_that_did_its_steps_or_left_out_each_epochs_last_batch_has_completed() -> None:
    assert against_plan(DONE, 3000, of(3000)) == DONE and against_plan(DONE, 2990, of(3000)) == DONE
    assert against_plan(DONE, 200, of(300, least=200)) == DONE


def test_what_is_not_known_is_held_against_nobody() -> None:
    assert against_plan(DONE, 320, None) == DONE
    # Not instrumented: no step was seen.
    assert against_plan(DONE, 0, of(3000)) == DONE
    crashed = Ended(status=TrialStatus.CRASHED, detail="exit code 1")
    assert against_plan(crashed, 320, of(3000)) == crashed
    # After a step-down: at least 1000, and it may have done them all.
    assert against_plan(DONE, 1000, of(3000), most=3100) == DONE
    early = against_plan(DONE, 1000, of(3000), most=1050)
    assert early.detail is not None and "after 1000 or more of 3000 steps" in early.detail


def test_a_run_that_went_on_is_held_against_what_it_can_have_done_with_those_before() -> None:
    assert against_plan(DONE, 1800, of(2000, most_before=217)) == DONE
    early = against_plan(DONE, 235, of(2000, most_before=217))
    assert early.early and early.detail is not None
    assert "after 235, with 217 at most before it, of 2000 steps" in early.detail
    # From a checkpoint of which nobody knows.
    assert against_plan(DONE, 235, of(2000, most_before=None)) == DONE


@pytest.mark.parametrize(
    ("free", "words"),
    [
        (0, "has least room, 0 B, too little for another file as large as its largest there, 1 MiB"),
        (2 * 2**20, "has least room, 2 MiB, less than 16 MiB"),
        (2**30, "has least room, 1 GiB"),
    ],
)
def test_a_full_disk_is_told_by_what_it_really_lacks(tmp_path: Path, free: int, words: str) -> None:
    (tmp_path / "last.pt").write_bytes(bytes(2**20))
    assert full_where((free, tmp_path), (tmp_path,)).endswith(words)
