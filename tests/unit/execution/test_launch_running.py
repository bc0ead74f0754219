"""Whether a full run's guard still lives, and how a run ended whose guard was killed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.counters import write_counts
from vtune.domain.launch import Length
from vtune.domain.trial import Passed, TrialOutcome
from vtune.execution.launch_running import RunningLaunch, identity, left_unguarded, running_launch, settle
from vtune.journal.files import dump_json, to_json
from vtune.journal.launch_files import write_state
from vtune.journal.paths import StudyPaths


@pytest.fixture
def study(tmp_path: Path) -> StudyPaths:
    return StudyPaths(tmp_path / "results" / "demo")


def left_by(study: StudyPaths, steps: int, length: Length | None = None, **outcome: Any) -> None:
    launch = study.launch(1)
    folder = launch.attempt(1)
    folder.root.mkdir(parents=True)
    dump_json(launch.launch, {"length": to_json(length)})
    dump_json(launch.state, {"status": "running", "steps": 3, "steps_before": 0})
    ended = {"ended_by": "itself", "exit_code": 0, "signal": None, "seconds": 9.0, **outcome}
    dump_json(folder.outcome, TrialOutcome(**ended))
    write_counts(folder.root, 4.0, steps)


def test_exit_code_0_after_all_of_its_steps_is_completed(study: StudyPaths) -> None:
    left_by(study, 1990, Length(steps=2000, least=1800))
    [left] = left_unguarded(study)
    assert (left.status, left.steps) == ("completed", 1990)
    assert left.how == "went on after its guard was killed: it ended with exit code 0"


def test_exit_code_0_far_from_its_planned_end_is_a_run_that_was_stopped(study: StudyPaths) -> None:
    left_by(study, 286, Length(steps=2000, least=1800))
    [left] = left_unguarded(study)
    assert left.status == "stopped" and left.how.endswith("exit code 0, after 286 of 2000 steps")


def test_of_a_length_that_nobody_knows_exit_code_0_is_its_end(study: StudyPaths) -> None:
    left_by(study, 286)
    assert [left.status for left in left_unguarded(study)] == ["completed"]


def test_what_vtune_itself_ended_for_its_memory_is_nobodys_signal(study: StudyPaths) -> None:
    over = Passed(what="ram", used_bytes=600 * 2**20, limit_bytes=500 * 2**20)
    left_by(study, 286, Length(steps=2000, least=1800), ended_by="limit", exit_code=None, signal=9, over=over)
    [left] = left_unguarded(study)
    assert left.status == "stopped" and "600 MiB of RAM in use, over the limit of 500 MiB" in left.how
    assert "signal" not in left.how


def test_what_is_written_down_of_it_has_the_steps_of_its_counters(study: StudyPaths) -> None:
    left_by(study, 286, Length(steps=2000, least=1800))
    settle(study)
    state = json.loads(study.launch(1).state.read_text())
    assert (state["status"], state["steps"]) == ("stopped", 286) and left_unguarded(study) == []


def test_after_a_reboot_a_process_of_the_guards_number_is_not_the_guard(study: StudyPaths) -> None:
    me = identity(os.getpid())
    study.launch(1).root.mkdir(parents=True)
    write_state(study.launch(1), {"status": "running", "guard": me})
    assert running_launch(study) == RunningLaunch(number=1, pid=os.getpid(), guard_pid=os.getpid())
    write_state(study.launch(1), {"status": "running", "guard": {**me, "boot_id": "another"}})
    assert running_launch(study) is None
