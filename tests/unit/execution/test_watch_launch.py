"""What a launch's own files tell whoever looks on: written by hand here, in tests/integration/launch by a launch."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from support.counters import write_counts
from support.studies import a_trial, write_study
from vtune.execution.launch_running import identity
from vtune.execution.watch_launch import WatchedLaunch
from vtune.journal.files import dump_json
from vtune.journal.launch_files import write_state
from vtune.journal.paths import StudyPaths


@pytest.fixture
def study(tmp_path: Path) -> StudyPaths:
    """After a step-down from trial 2 to trial 1: 25 steps are done."""
    study = write_study(tmp_path, a_trial(1, 20.0), a_trial(2, 30.0, workers=4))
    launch = study.launch(1)
    attempt = launch.attempt(2)
    attempt.root.mkdir(parents=True)
    dump_json(launch.launch, {"promise": {"samples_per_s": 30.0, "effective_batch": 2, "steps": 125}})
    dump_json(attempt.spec, {"trial": 1, "settings": {"workers": 2}})
    dump_json(attempt.limits, {"ram_bytes": 2**30})
    dump_json(attempt.supervisor, {"supervisor_pid": 71})
    return study


def stands(study: StudyPaths, guard: dict[str, Any], **other: Any) -> None:
    state = {"status": "running", "attempt": 2, "steps_before": 25, "step_downs": 1, "samples_per_s": 15.0, **other}
    write_state(study.launch(1), {**state, "guard": guard})


def watched(study: StudyPaths) -> WatchedLaunch:
    """Nine seconds of four steps each."""
    attempt = study.launch(1).attempt(2)
    launch = WatchedLaunch(attempt)
    for second in range(1, 11):
        write_counts(attempt.root, float(second), 4 * second)
        launch.look(float(second))
    return launch


def test_after_a_step_down_the_promise_is_the_safer_trials_and_the_steps_are_those_of_all_attempts(
    study: StudyPaths,
) -> None:
    stands(study, identity(os.getpid()))
    launch = watched(study)
    seen = launch.seen()
    assert (seen.study, seen.launch, seen.attempt, seen.step_downs, seen.retries) == (study.root.name, 1, 2, 1, 0)
    assert (seen.trial, seen.settings, seen.promised_samples_per_s) == (1, {"workers": 2}, 20.0)
    assert (seen.guard_pid, seen.guard_lives, seen.supervisor_pid) == (os.getpid(), True, 71)
    assert (seen.achieved_samples_per_s, seen.achieved_by) == (15.0, "guard")
    assert (seen.steps, seen.steps_at_end) == (65, 125)
    stands(study, identity(os.getpid()), retries=2)
    assert watched(study).seen().retries == 2
    assert launch.ram_limit_bytes == 2**30 and launch.wait_share(10.0) == pytest.approx(0.5)


def test_the_time_that_is_left_is_the_guards_which_knows_of_pauses_as_long_as_it_tells(study: StudyPaths) -> None:
    guard = identity(os.getpid())
    stands(study, guard, at=time.time(), left_s=32.1)
    assert watched(study).seen().left_s == 32.1
    # Before it knows a rate, or where the steps that are left are not known, it tells none, and nobody else knows more.
    stands(study, guard, at=time.time(), left_s=None)
    assert watched(study).seen().left_s is None
    # It lives, but writes no more: sixty steps are left at its rate.
    stands(study, guard, at=time.time() - 60, left_s=32.1)
    assert watched(study).seen().left_s == 8.0


def test_what_a_dead_guard_left_written_is_not_what_is_achieved_now(study: StudyPaths) -> None:
    stands(study, {**identity(os.getpid()), "started_ticks": 1}, at=time.time(), left_s=32.1)
    seen = watched(study).seen()
    assert (seen.guard_pid, seen.guard_lives) == (os.getpid(), False)
    # Four steps a second of two samples each, and not the fifteen that it saw last.
    assert (seen.achieved_samples_per_s, seen.achieved_by) == (pytest.approx(8.0), "looks")
    assert seen.left_s == pytest.approx(15.0)


def test_a_launch_that_has_only_just_begun_is_told_without_numbers(study: StudyPaths) -> None:
    seen = WatchedLaunch(study.launch(1).attempt(2)).seen()
    assert (seen.steps, seen.achieved_samples_per_s, seen.left_s, seen.guard_lives) == (0, None, None, False)
