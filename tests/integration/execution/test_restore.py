"""The user's files are put back whole, once, and by nobody who cannot prove that the trial is its own."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.files_as_they_were import differences, manifest
from support.hostile_training import populate
from support.protected import run_python, write_protection
from vtune.execution import kept_files
from vtune.execution import restore as module
from vtune.execution.ownership import record
from vtune.execution.restore import restore
from vtune.execution.sweep import files_put_back, sweep, sweep_if_stale, sweep_overlapping


@pytest.fixture
def place(tmp_path: Path) -> SimpleNamespace:
    work, elsewhere, trial = tmp_path / "work", tmp_path / "elsewhere", tmp_path / "trial"
    work.mkdir()
    elsewhere.mkdir()
    populate(work, elsewhere)
    write_protection(trial, work, elsewhere)
    place = SimpleNamespace(work=work, elsewhere=elsewhere, trial=trial, root=tmp_path)
    place.now = lambda: manifest(work, elsewhere)
    place.run = lambda code: run_python(trial, code, work)
    return place


def written(trial: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads((trial / "written.json").read_text())
    return found


CHANGES = """
import os, pathlib, shutil
open("last.pt", "w").write("new")
open("shared/last.pt", "a").write("more")
os.truncate("checkpoints/best.pt", 3)
os.remove("train.log")
os.rename("data", "data-2")
shutil.rmtree("old_run")
os.makedirs("run-1/a"); open("run-1/a/b.pt", "w").write("made")
os.mkdir("run-2")
os.remove("latest"); os.symlink("run-1", "latest")
os.chmod("empty", 0o500); os.utime("metrics.csv", (1, 2))
"""


def test_all_is_as_it_was_and_what_was_written_is_with_the_trial(place):
    before = place.now()
    done = place.run(CHANGES)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(differences(before, place.now())) > 10
    restore(str(place.trial))
    assert differences(before, place.now()) == []
    assert not (place.trial / "kept").exists()
    kept = place.trial / "written" / str(place.work).lstrip("/")
    assert (kept / "run-1" / "a" / "b.pt").read_text() == "made"
    assert not (kept / "run-2").exists()
    assert (kept / "last.pt").read_text() == "new"


def test_each_change_is_listed_by_its_real_path(place):
    place.run(CHANGES)
    restore(str(place.trial))
    listed = written(place.trial)
    work = str(place.work)
    assert {f"{work}/last.pt", f"{place.elsewhere}/shared/last.pt", f"{work}/latest"} <= set(listed["changed"])
    assert {f"{work}/run-1/", f"{work}/run-1/a/b.pt", f"{work}/data-2/"} <= set(listed["new"])
    assert {f"{work}/train.log", f"{work}/old_run", f"{work}/data/1.npy"} <= set(listed["removed"])


def test_a_file_that_was_opened_and_left_alone_is_left_alone(place):
    inode = (place.work / "last.pt").stat().st_ino
    place.run("open('last.pt', 'r+b').close(); open('train.log', 'a').close()")
    restore(str(place.trial))
    assert (place.work / "last.pt").stat().st_ino == inode
    assert written(place.trial) == {"changed": [], "new": [], "removed": []}


def test_names_of_one_file_stay_names_of_one_file(place):
    before = place.now()
    place.run("import os; open('data/0.npy', 'a').write('x'); os.remove('data/same.npy'); os.rename('data/0.npy', 'z')")
    restore(str(place.trial))
    assert differences(before, place.now()) == []
    assert (place.work / "data" / "0.npy").samefile(place.work / "data" / "same.npy")


def test_on_another_file_system_files_are_copied_back(place, monkeypatch):
    before = place.now()
    place.run(CHANGES)
    rename = os.rename

    def only_inside(source, target):
        if str(place.trial) in target and not source.startswith(str(place.trial)):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        rename(source, target)

    monkeypatch.setattr(module, "_device", lambda path: str(path).startswith(str(place.trial)))
    monkeypatch.setattr(module.os, "rename", only_inside)
    restore(str(place.trial))
    monkeypatch.undo()
    assert differences(before, place.now()) == []
    assert not list(place.work.rglob(".vtune-*"))
    kept = place.trial / "written" / str(place.work).lstrip("/")
    assert (kept / "run-1" / "a" / "b.pt").read_text() == "made"
    assert (kept / "data-2" / "deep" / "a.txt").is_file()


class Ended(BaseException):
    pass


def end_after(lines: int, do: Callable[[], None]) -> None:
    """As if it were killed: at any line of what puts files back."""
    ours = (module.__file__, kept_files.__file__)

    def trace(frame, event, arg):
        nonlocal lines
        if frame.f_code.co_filename not in ours:
            return None
        lines -= event == "line"
        if lines < 0:
            raise Ended
        return trace

    sys.settrace(trace)
    try:
        do()
    finally:
        sys.settrace(None)


@pytest.mark.parametrize("stride", [53, 89])
def test_it_goes_on_wherever_it_was_ended(place, stride):
    before = place.now()
    place.run(CHANGES)
    lines = 0
    while True:
        lines += stride
        with contextlib.suppress(Ended):
            end_after(lines, lambda: restore(str(place.trial)))
            break
    assert lines > 20 * stride
    assert differences(before, place.now()) == []
    assert not list(place.work.rglob(".vtune-*"))
    assert f"{place.work}/last.pt" in written(place.trial)["changed"]


def test_a_file_that_cannot_be_put_back_keeps_none_of_the_others(place):
    place.run("open('last.pt', 'w').write('new'); open('train.log', 'w').write('new')")
    (note,) = [n for n in (place.trial / "kept").glob("*/file") if n.read_text().find("train.log") > 0]
    note.write_text("torn")
    restore(str(place.trial))
    assert (place.work / "last.pt").read_bytes().startswith(b"old")
    assert list(json.loads((place.trial / "not-restored.json").read_text())) == [str(note)]
    assert note.exists()


def test_notes_about_other_places_are_not_heeded(place):
    place.run("open('last.pt', 'w').write('new')")
    victim = place.root / "victim"
    for path in (str(victim), f"{place.work}/../victim"):
        entry = place.trial / "kept" / str(len(path))
        entry.mkdir()
        (entry / "data").write_text("bad")
        (entry / "file").write_text(json.dumps({"path": path, "mode": 0o644}))
    restore(str(place.trial))
    assert not victim.exists()
    assert (place.work / "last.pt").read_bytes().startswith(b"old")


def test_a_foreign_study_makes_a_sweep_write_nothing(place):
    place.run(CHANGES)
    (place.trial / "spec.json").write_text("{}")
    changed = place.now()
    sweep("0" * 32, place.trial)
    assert differences(changed, place.now()) == []
    assert (place.trial / "kept").is_dir()


def test_a_sweep_puts_the_files_of_its_own_trial_back(place):
    before = place.now()
    place.run(CHANGES)
    record("a" * 32, {"folder": str(place.trial), "supervisor_pid": 1, "boot_id": "another"})
    sweep("b" * 32, place.trial)
    assert differences(before, place.now()) != []
    sweep("a" * 32, place.trial)
    assert differences(before, place.now()) == []


def test_without_anything_kept_nothing_happens(tmp_path: Path):
    restore(str(tmp_path))
    (tmp_path / "kept").symlink_to(tmp_path)
    restore(str(tmp_path))
    assert os.listdir(tmp_path) == ["kept"]


def test_a_folder_nested_deeper_than_calls_of_python_hinders_no_restoring(place):
    before = place.now()
    place.run(
        "import os, sys\nopen('last.pt', 'w').write('new')\n"
        "os.mkdir('deep'); os.chdir('deep')\n"
        "for _ in range(sys.getrecursionlimit()):\n    os.mkdir('d'); os.chdir('d')\n"
    )
    restore(str(place.trial))
    assert differences(before, place.now()) == [] and not (place.trial / "kept").exists()
    # What pytest removes its folders with nests calls, too.
    subprocess.run(["rm", "-r", place.trial / "written"], check=True)


@pytest.mark.parametrize("text", [None, "{", '{"folders": 1}', "[]"])
def test_a_sweep_of_a_trial_that_lost_its_protection_ends_and_tells(place, text):
    token = "0" * 32
    (place.trial / "spec.json").write_text(json.dumps({"token": token}))
    assert record(token, {"folder": str(place.trial), "supervisor_pid": 2**22 - 1, "boot_id": "another"})
    place.run("open('last.pt', 'w').write('new')")
    protection = place.trial / "protection.json"
    protection.unlink() if text is None else protection.write_text(text)
    assert sweep(token, place.trial).ended_by == "lost"
    assert (place.trial / "kept").exists()
    assert list(json.loads((place.trial / "not-restored.json").read_text())) == [str(protection)]


def test_a_removed_pipe_is_made_again_and_one_in_whose_place_a_file_stands_too(place):
    for name, mode in (("orders", 0o622), ("answers", 0o640)):
        os.mkfifo(place.work / name)
        (place.work / name).chmod(mode)
    before = place.now()
    place.run("import os; os.remove('orders'); os.remove('answers'); open('answers', 'w').write('mine')")
    assert len(differences(before, place.now())) > 1
    restore(str(place.trial))
    assert differences(before, place.now()) == []
    assert [(place.work / name).is_fifo() for name in ("orders", "answers")] == [True, True]
    assert not (place.trial / "kept").exists()


def test_the_extra_name_of_a_file_goes_although_another_file_cannot_be_put_back(place):
    place.run("open('data/0.npy', 'a').write('x'); open('train.log', 'w').write('new')")
    (note,) = [n for n in (place.trial / "kept").glob("*/file") if n.read_text().find("train.log") > 0]
    note.write_text("torn")
    assert (place.work / "data" / "0.npy").stat().st_nlink == 3
    restore(str(place.trial))
    assert (place.work / "data" / "0.npy").stat().st_nlink == 2
    assert note.exists() and not list((place.trial / "kept").glob("*.inode"))


def lost(place: SimpleNamespace, ago_s: float) -> None:
    """As if vtune and supervisor had been killed so long ago: each file of the trial, and each that it changed."""
    then = time.time() - ago_s
    (place.trial / "spec.json").write_text(json.dumps({"token": "a" * 32}))
    assert record("a" * 32, {"folder": str(place.trial), "supervisor_pid": 2**22 - 1, "boot_id": "another"})
    for path in (place.trial, *place.trial.rglob("*")):
        os.utime(path, (then, then), follow_symlinks=False)


def test_a_sweep_leaves_alone_whatever_the_user_made_since(place):
    place.run(
        "import os\nfor name in ('last.pt', 'train.log', 'made.pt', 'data/0.npy'): open(name, 'w').write('new')\n"
        "os.mkdir('run-1'); open('run-1/a.pt', 'w').write('made'); os.chmod('metrics.csv', 0o600)"
    )
    lost(place, ago_s=0)
    time.sleep(2.2)
    thesis = {place.work / name: f"thesis {name}" for name in ("last.pt", "made.pt", "data/0.npy", "run-1/b.txt")}
    for path, text in thesis.items():
        path.write_text(text)
    (place.work / "metrics.csv").chmod(0o644)
    assert sweep_if_stale(place.trial)
    assert {path: path.read_text() for path in thesis} == thesis
    assert (place.work / "train.log").read_bytes() != b"new"
    assert (place.work / "metrics.csv").stat().st_mode & 0o777 == 0o644
    told = json.loads((place.trial / "not-restored.json").read_text())
    left = {"last.pt", "made.pt", "data/0.npy", "data/same.npy", "run-1", "metrics.csv"}
    assert {os.path.relpath(path, place.work) for path in told} <= left
    assert left - {os.path.relpath(path, place.work) for path in told} <= {"data/same.npy"}
    assert {reason for path, reason in told.items() if path == str(place.work / "last.pt")} == {
        f"changed after the trial ended; its old state is in {place.trial}/kept"
    }
    assert b"old" in [data.read_bytes()[:3] for data in (place.trial / "kept").glob("*/data")]


def test_a_sweep_puts_back_all_that_the_trial_changed_before_its_last_sign_of_life(place):
    before = place.now()
    place.run(CHANGES)
    lost(place, ago_s=0)
    assert sweep_if_stale(place.trial)
    assert differences(before, place.now()) == []
    assert not (place.trial / "kept").exists()


def test_a_lost_trial_of_another_study_is_swept_before_its_changes_are_taken_for_the_users_files(place):
    before = place.now()
    place.run(CHANGES)
    lost(place, ago_s=0)
    assert sweep_overlapping([str(place.root / "elsewhere-2")]) == []
    assert differences(before, place.now()) != []
    assert sweep_overlapping([str(place.work / "data")]) == [place.trial]
    assert differences(before, place.now()) == []
    assert sweep_overlapping([str(place.work)]) == []


def test_a_sweep_tells_how_many_files_it_put_back_and_which_not(place):
    place.run("import os\nfor name in ('last.pt', 'train.log', 'made.pt'): open(name, 'w').write('new')")
    lost(place, ago_s=0)
    (note,) = [n for n in (place.trial / "kept").glob("*/file") if n.read_text().find("train.log") > 0]
    note.write_text("torn")
    assert sweep_if_stale(place.trial)
    found = files_put_back(place.trial)
    assert (found.trial, found.put_back, found.moved) == (str(place.trial), 1, 1)
    assert [path for path, _ in found.not_put_back] == [str(note)]


def test_a_sweep_of_a_trial_that_changed_nothing_is_not_told(place):
    lost(place, ago_s=0)
    assert sweep_if_stale(place.trial)
    assert files_put_back(place.trial) is None
