import json
import os
import sys
import time
from pathlib import Path

import pytest

from vtune.execution import overlay
from vtune.execution.disk_guard import DiskGuard


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    """A trial's folder with one covered folder, as the end of its processes leaves them."""
    (tmp_path / "trial" / ".overlay" / "0" / "upper").mkdir(parents=True)
    (tmp_path / "trial" / ".overlay" / "0" / "work" / "work").mkdir(parents=True, mode=0o000)
    (tmp_path / "home").mkdir()
    protection = {"by": "overlay", "folders": [str(tmp_path / "home")], "open": [], "bound": [], "as_user": False}
    (tmp_path / "trial" / "protection.json").write_text(json.dumps(protection))
    return tmp_path / "trial"


def upper(trial: Path) -> Path:
    return trial / ".overlay" / "0" / "upper"


def listed(trial: Path) -> dict[str, list[str]]:
    home = f"{trial.parent / 'home'}/"
    written = json.loads((trial / "written.json").read_text())
    return {kind: sorted(path.removeprefix(home) for path in paths) for kind, paths in written.items()}


def test_changed_and_new_files_are_listed_whole_and_kept(trial: Path) -> None:
    (trial.parent / "home" / "last.pt").write_text("old")
    (upper(trial) / "last.pt").write_text("overwritten")
    (upper(trial) / "runs").mkdir()
    for number in range(30):
        (upper(trial) / "runs" / f"{number:02}.pt").touch()
    overlay.finish(str(trial))
    found = listed(trial)
    assert found["changed"] == ["last.pt"] and found["removed"] == []
    assert found["new"] == ["runs/", *(f"runs/{number:02}.pt" for number in range(30))]
    kept = trial / "written" / str(trial.parent / "home").lstrip("/")
    assert (kept / "last.pt").read_text() == "overwritten" and len(list((kept / "runs").iterdir())) == 30
    assert not (trial / ".overlay").exists()
    assert (trial.parent / "home" / "last.pt").read_text() == "old"


def test_a_file_that_was_opened_and_left_alone_is_not_listed(trial: Path) -> None:
    for place in (trial.parent / "home", upper(trial)):
        (place / "data.bin").write_text("data")
        os.utime(place / "data.bin", (5, 5))
    overlay.finish(str(trial))
    assert listed(trial) == {"changed": [], "new": [], "removed": []}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make the nodes that stand for removed files")
def test_removed_files_are_listed_and_the_nodes_that_hide_them_go(trial: Path) -> None:
    (trial.parent / "home" / "old.pt").touch()
    (trial.parent / "home" / "runs").mkdir()
    (trial.parent / "home" / "runs" / "a").touch()
    (trial.parent / "home" / "runs" / "b").touch()
    os.mknod(upper(trial) / "old.pt", 0o020000, 0)
    # Removed and made anew, with one of its files.
    (upper(trial) / "runs").mkdir()
    os.setxattr(upper(trial) / "runs", "trusted.overlay.opaque", b"y")
    (upper(trial) / "runs" / "a").write_text("anew")
    overlay.finish(str(trial))
    assert listed(trial) == {"changed": ["runs/a"], "new": [], "removed": ["old.pt", "runs/b"]}
    assert not list(trial.glob("written/**/old.pt"))


def test_an_end_that_is_cut_off_can_be_repeated(trial: Path) -> None:
    (upper(trial) / "new.pt").touch()
    overlay.finish(str(trial))
    first = (trial / "written.json").read_text()
    upper(trial).mkdir(parents=True)  # the listing was whole, and the rest was not removed yet
    overlay.finish(str(trial))
    assert (trial / "written.json").read_text() == first


def test_a_planted_link_in_place_of_the_layers_is_not_followed(trial: Path) -> None:
    elsewhere = trial.parent / "elsewhere"
    (trial / ".overlay").rename(elsewhere)
    (elsewhere / "0" / "upper" / "mine").touch()
    (trial / ".overlay").symlink_to(elsewhere)
    overlay.finish(str(trial))
    assert (elsewhere / "0" / "upper" / "mine").exists() and not (trial / "written.json").exists()


def test_folders_nested_deeper_than_calls_of_python_are_listed_and_kept(trial: Path) -> None:
    place = str(upper(trial))
    for _ in range(sys.getrecursionlimit()):
        place += "/d"
        os.mkdir(place)
    overlay.finish(str(trial))
    assert len(listed(trial)["new"]) == sys.getrecursionlimit() and not (trial / ".overlay").exists()
    overlay._remove(str(trial / "written"))
    assert not (trial / "written").exists()


def test_a_name_among_very_many_takes_no_look_at_the_others(trial: Path) -> None:
    found = {"new": dict[str, None]()}
    changes = overlay._Changes("/a", "/b", found)
    begun_s = time.process_time()
    for number in range(50_000):
        changes._note("new", f"/a/{number}")
    assert time.process_time() - begun_s < 2


def test_a_link_in_a_layer_is_kept_as_a_link(trial: Path) -> None:
    (trial.parent / "theirs").write_text("theirs")
    (upper(trial) / "last").symlink_to(trial.parent / "theirs")
    overlay.finish(str(trial))
    assert listed(trial)["new"] == ["last"] and (trial.parent / "theirs").read_text() == "theirs"


def test_a_trial_that_fills_its_space_is_noticed_with_both_figures(trial: Path) -> None:
    protection = json.loads((trial / "protection.json").read_text())
    (trial / "protection.json").write_text(json.dumps({**protection, "disk_bytes": 2**20}))
    guard = DiskGuard(str(trial))
    assert not guard.is_over(0.0) and guard.over is None
    (upper(trial) / "big").write_bytes(b"x" * 2**21)
    assert guard.is_over(10.0**9)
    assert guard.over is not None and guard.over["limit_bytes"] == 2**20 and guard.over["used_bytes"] >= 2**21


@pytest.mark.parametrize("is_over", [True, False])
def test_copies_of_the_users_files_go_where_the_trial_is_over_its_space(trial: Path, is_over: bool) -> None:
    protection = json.loads((trial / "protection.json").read_text())
    most = 2**20 if is_over else 2**30
    (trial / "protection.json").write_text(json.dumps({**protection, "disk_bytes": most}))
    for name in ("data.bin", "alone.bin"):
        (trial.parent / "home" / name).write_bytes(b"d" * 2**21)
        (upper(trial) / name).write_bytes(b"d" * 2**21)
        os.utime(trial.parent / "home" / name, (5, 5))
    os.utime(upper(trial) / "alone.bin", (5, 5))
    (upper(trial) / "new.pt").write_bytes(b"new")
    overlay.finish(str(trial))
    assert listed(trial) == {"changed": ["data.bin"], "new": ["new.pt"], "removed": []}
    kept = trial / "written" / str(trial.parent / "home").lstrip("/")
    copies = [] if is_over else ["alone.bin", "data.bin"]
    assert sorted(path.name for path in kept.iterdir()) == [*copies, "new.pt"]
    assert (trial.parent / "home" / "data.bin").stat().st_size == 2**21
    assert (overlay.disk_used(str(trial)) <= most) is True


def test_a_full_run_has_no_space_to_fill(tmp_path: Path) -> None:
    guard = DiskGuard(str(tmp_path))
    (tmp_path / "checkpoint").write_bytes(b"x" * 2**21)
    assert not guard.is_over(10.0**9)


def test_new_files_in_the_users_folder_fill_the_space_and_files_that_stood_there_before_do_not(tmp_path: Path) -> None:
    trial, work = tmp_path / "trial", tmp_path / "work"
    (trial / "kept").mkdir(parents=True)
    (work / "run").mkdir(parents=True)
    (work / "run" / "old.pt").write_bytes(b"x" * 2**22)
    time.sleep(0.02)
    (trial / "protection.json").write_text(json.dumps({"by": "inside", "folders": [str(work)], "disk_bytes": 2**20}))
    guard = DiskGuard(str(trial))
    # A folder with another name now, as after a rename.
    (trial / "kept" / "0").symlink_to(f"nothing:{work}/run")
    assert not guard.is_over(0.0)
    (work / "run" / "new.pt").write_bytes(b"x" * 2**19)
    (work / "last.pt").write_bytes(b"x" * (2**19 + 2**14))
    assert not guard.is_over(10.0**9)
    (trial / "kept" / "1").symlink_to(f"nothing:{work}/last.pt")
    assert guard.is_over(10.0**10)
    assert guard.over is not None and 2**20 < guard.over["used_bytes"] < 2**21
