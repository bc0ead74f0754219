from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from vtune.execution import shm
from vtune.execution.process_tree import boot_id, process_of
from vtune.execution.sweep import supervisor_lives, sweep_stale
from vtune.journal.paths import TrialPaths
from vtune.journal.trial_files import read_outcome


def trial(trials: Path, name: str = "0001", **state: Any) -> Path:
    folder = trials / name
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(json.dumps({"token": "none-such"}))
    if state:
        (folder / "supervisor.json").write_text(json.dumps({"boot_id": boot_id(), "shm_before": [], **state}))
    return folder


@pytest.fixture
def dead_pid() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def test_a_trial_without_an_outcome_whose_supervisor_is_dead_was_lost(tmp_path: Path, dead_pid):
    tmpdir = tmp_path / "vt-0001"
    (tmpdir / "deep").mkdir(parents=True)
    folder = trial(tmp_path / "trials", supervisor_pid=dead_pid, supervisor_started_ticks=1, tmpdir=str(tmpdir))
    assert sweep_stale(tmp_path / "trials") == [folder]
    outcome = read_outcome(TrialPaths(folder))
    assert outcome is not None
    assert (outcome.ended_by, outcome.exit_code, outcome.signal, outcome.defect) == ("lost", None, None, None)
    assert not tmpdir.exists()


def test_a_supervisor_that_left_a_log_died_of_a_defect(tmp_path: Path, dead_pid):
    folder = trial(tmp_path, supervisor_pid=dead_pid)
    (folder / "supervisor.log").write_text("Traceback (most recent call last):\n  File ...\nKeyError: 'token'\n")
    assert sweep_stale(tmp_path) == [folder]
    outcome = read_outcome(TrialPaths(folder))
    assert outcome is not None and outcome.defect == "KeyError: 'token'"


def test_a_number_that_another_process_has_now_is_not_the_supervisor(tmp_path: Path):
    folder = trial(tmp_path, supervisor_pid=os.getpid(), supervisor_started_ticks=1)
    assert not supervisor_lives(folder)
    assert sweep_stale(tmp_path) == [folder]


def test_nothing_from_before_a_reboot_is_alive(tmp_path: Path):
    me = process_of(os.getpid())
    assert me is not None
    state = {"supervisor_pid": os.getpid(), "supervisor_started_ticks": me.started_ticks}
    assert supervisor_lives(trial(tmp_path, "0001", **state))
    assert not supervisor_lives(trial(tmp_path, "0002", **state, boot_id="another"))


def test_after_a_reboot_segments_of_the_same_name_are_somebody_elses(tmp_path: Path, dead_pid):
    path = Path(shm.SHM) / f"vtune_test_{os.urandom(6).hex()}"
    path.touch()
    try:
        folder = trial(tmp_path, supervisor_pid=dead_pid, shm_ours=[path.name], boot_id="another")
        assert sweep_stale(tmp_path) == [folder]
        assert path.exists()
    finally:
        path.unlink()


def test_only_our_own_temporary_folders_are_removed(tmp_path: Path, dead_pid):
    precious = tmp_path / "precious"
    precious.mkdir()
    link = tmp_path / "vt-link"
    link.symlink_to(precious)
    trial(tmp_path / "trials", "0001", supervisor_pid=dead_pid, tmpdir=str(precious))
    trial(tmp_path / "trials", "0002", supervisor_pid=dead_pid, tmpdir=str(link))
    assert len(sweep_stale(tmp_path / "trials")) == 2
    assert precious.exists()


def test_a_trial_that_has_its_outcome_or_never_started_is_left_alone(tmp_path: Path, dead_pid):
    finished = trial(tmp_path, "0001", supervisor_pid=dead_pid)
    (finished / "outcome.json").write_text("{}")
    trial(tmp_path, "0002")
    assert sweep_stale(tmp_path) == []
    assert (finished / "outcome.json").read_text() == "{}"
    assert sweep_stale(tmp_path / "no-such-folder") == []
