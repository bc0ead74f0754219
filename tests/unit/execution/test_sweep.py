from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vtune.execution import shm
from vtune.execution.ownership import proof_of, record
from vtune.execution.process_tree import boot_id, process_of
from vtune.execution.sweep import left_unproven, supervisor_lives, sweep_stale
from vtune.journal.paths import TrialPaths
from vtune.journal.trial_files import read_outcome


def trial(trials: Path, name: str = "0001", **state: Any) -> Path:
    """As a supervisor leaves it: its files, and the proof that it is this account's."""
    folder = planted(trials, name, **state)
    if state:
        facts = {"folder": str(folder), "boot_id": boot_id(), "shm_before": [], **state}
        assert record(json.loads((folder / "spec.json").read_text())["token"], facts)
    return folder


def planted(trials: Path, name: str = "0001", *, token: str | None = None, **state: Any) -> Path:
    """As somebody else may have made it: its files alone."""
    folder = trials / name
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(json.dumps({"token": token or os.urandom(16).hex()}))
    if state:
        (folder / "supervisor.json").write_text(json.dumps({"shm_before": [], **state}))
    return folder


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process of this account that no trial has anything to do with."""
    token = os.urandom(16).hex()
    process = subprocess.Popen(["sleep", "1000"], env={**os.environ, "VTUNE_TOKEN": token})
    process.token = token  # type: ignore[attr-defined]
    try:
        while token not in Path(f"/proc/{process.pid}/environ").read_text():
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.wait()


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
    folder = trial(tmp_path, supervisor_pid=os.getpid(), supervisor_started_ticks=1, boot_id=boot_id())
    assert not supervisor_lives(folder)
    assert sweep_stale(tmp_path) == [folder]


def test_nothing_from_before_a_reboot_is_alive(tmp_path: Path):
    me = process_of(os.getpid())
    assert me is not None
    state = {"supervisor_pid": os.getpid(), "supervisor_started_ticks": me.started_ticks, "boot_id": boot_id()}
    assert supervisor_lives(trial(tmp_path, "0001", **state))
    assert not supervisor_lives(trial(tmp_path, "0002", **{**state, "boot_id": "another"}))


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
    assert not (tmp_path / "0002" / "outcome.json").exists()
    assert (finished / "outcome.json").read_text() == "{}"
    assert sweep_stale(tmp_path / "no-such-folder") == []


def remains(tmp_path: Path, bystander: subprocess.Popen[bytes], segment: Path) -> dict[str, Any]:
    """All that a sweep could end or remove, each of it somebody's: a process, a group, a folder, a segment."""
    tmpdir, group = tmp_path / "vt-0001", tmp_path / "vtune-0001"
    tmpdir.mkdir()
    group.mkdir()
    (tmpdir / "thesis.tex").touch()
    (group / "cgroup.procs").write_text(f"{bystander.pid}\n")
    segment.touch()
    return {"tmpdir": str(tmpdir), "group": str(group), "shm_ours": [segment.name], "leader_pid": bystander.pid}


def are_whole(remains: dict[str, Any], bystander: subprocess.Popen[bytes]) -> bool:
    return (
        bystander.poll() is None
        and Path(remains["tmpdir"], "thesis.tex").exists()
        and Path(remains["group"], "cgroup.procs").exists()
        and all(Path(shm.SHM, name).exists() for name in remains["shm_ours"])
    )


@pytest.fixture
def segment() -> Iterator[Path]:
    path = Path(shm.SHM) / f"vtune_test_{os.urandom(6).hex()}"
    yield path
    path.unlink(missing_ok=True)


@pytest.mark.parametrize("boot", ["none", "this", "another"])
def test_a_study_of_somebody_else_ends_and_removes_nothing(
    tmp_path: Path, dead_pid: int, bystander: subprocess.Popen[bytes], segment: Path, boot: str
) -> None:
    named = remains(tmp_path, bystander, segment)
    told = {} if boot == "none" else {"boot_id": boot_id() if boot == "this" else boot}
    token = bystander.token  # type: ignore[attr-defined]
    folder = planted(tmp_path / "trials", token=token, supervisor_pid=dead_pid, **named, **told)
    before = sorted(path.name for path in folder.iterdir())
    assert sweep_stale(tmp_path / "trials") == []
    assert are_whole(named, bystander)
    assert sorted(path.name for path in folder.iterdir()) == before
    # It is worth a word only where something of it may still be on this machine.
    assert left_unproven(tmp_path / "trials") == ([folder] if boot == "this" else [])


def test_what_a_study_file_says_is_not_believed_of_a_trial_of_our_own(
    tmp_path: Path, dead_pid: int, bystander: subprocess.Popen[bytes], segment: Path
) -> None:
    folder = trial(tmp_path / "trials", supervisor_pid=dead_pid)
    named = remains(tmp_path, bystander, segment)
    (folder / "supervisor.json").write_text(json.dumps({"supervisor_pid": dead_pid, "boot_id": boot_id(), **named}))
    assert sweep_stale(tmp_path / "trials") == [folder]
    assert are_whole(named, bystander)


def test_a_copy_of_an_unfinished_trial_is_not_the_trial(tmp_path: Path, dead_pid: int) -> None:
    tmpdir = tmp_path / "vt-0001"
    tmpdir.mkdir()
    folder = trial(tmp_path / "trials", supervisor_pid=dead_pid, tmpdir=str(tmpdir))
    shutil.copytree(tmp_path / "trials", tmp_path / "copied")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "0001").symlink_to(folder)
    assert sweep_stale(tmp_path / "copied") == [] == sweep_stale(tmp_path / "linked")
    assert tmpdir.exists()
    assert sweep_stale(tmp_path / "trials") == [folder]
    assert not tmpdir.exists()


def test_after_a_reboot_the_temporary_folder_of_our_own_trial_is_removed_and_no_process_is_ended(
    tmp_path: Path, dead_pid: int, bystander: subprocess.Popen[bytes], segment: Path
) -> None:
    named = remains(tmp_path, bystander, segment)
    folder = trial(tmp_path / "trials", supervisor_pid=dead_pid, boot_id="another", **named)
    assert sweep_stale(tmp_path / "trials") == [folder]
    assert not Path(named["tmpdir"]).exists() and Path(named["group"]).exists()
    assert bystander.poll() is None and segment.exists()


def test_what_was_swept_is_forgotten(tmp_path: Path, dead_pid: int) -> None:
    folder = trial(tmp_path, supervisor_pid=dead_pid)
    token = json.loads((folder / "spec.json").read_text())["token"]
    assert proof_of(token, folder) is not None
    sweep_stale(tmp_path)
    assert proof_of(token, folder) is None


def test_the_room_that_a_killed_supervisor_kept_is_given_back(tmp_path: Path, dead_pid: int) -> None:
    folder = trial(tmp_path, supervisor_pid=dead_pid)
    for name in (f".room.{dead_pid}", f".outcome.json.{dead_pid}.tmp"):
        (folder / name).write_bytes(b" " * 16384)
    sweep_stale(tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["outcome.json", "spec.json", "supervisor.json"]
