"""The old state of a file is kept once, whole, and before anything else happens to it."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from threading import Barrier, Thread
from types import SimpleNamespace

import pytest


@pytest.fixture
def place(tmp_path: Path) -> SimpleNamespace:
    from _vtune_hooks.keeping import Keeper
    from _vtune_hooks.told_files import ToldFiles

    top, trial = tmp_path / "top", tmp_path / "trial"
    top.mkdir()
    trial.mkdir()

    def keeper(disk_bytes: int | None = None):
        return Keeper(str(trial), disk_bytes, ToldFiles(str(trial)))

    return SimpleNamespace(top=top, trial=trial, keeper=keeper)


def notes(trial: Path) -> dict[str, tuple[str, dict]]:
    """Path → kind and note, of what is whole."""
    found = {}
    for folder in (trial / "kept").glob("[!.]*"):
        if folder.is_symlink():
            found[os.readlink(folder).removeprefix("nothing:")] = ("nothing", {})
            continue
        for note in folder.iterdir():
            if note.name not in ("data", "itself"):
                fields = json.loads(note.read_text())
                found[fields["path"] + (".meta" if folder.suffix == ".meta" else "")] = (note.name, fields)
    return found


def data_of(trial: Path, path: Path) -> bytes:
    (note,) = [n for n in (trial / "kept").glob("*/file") if json.loads(n.read_text())["path"] == str(path)]
    return (note.parent / "data").read_bytes()


def test_a_file_is_copied_with_what_belongs_to_it(place):
    path = place.top / "last.pt"
    path.write_bytes(b"old")
    path.chmod(0o640)
    os.utime(path, ns=(10**18, 2 * 10**18))
    place.keeper().keep(str(path), str(place.top))
    kind, note = notes(place.trial)[str(path)]
    assert (kind, note["mode"], note["mtime_ns"], note["size"]) == ("file", 0o640, 2 * 10**18, 3)
    assert data_of(place.trial, path) == b"old"
    assert (place.trial / "kept").stat().st_mode & 0o777 == 0o700


def test_only_the_first_state_counts(place):
    path = place.top / "last.pt"
    path.write_bytes(b"old")
    first, second = place.keeper(), place.keeper()
    first.keep(str(path), str(place.top))
    path.write_bytes(b"new, and longer")
    first.keep(str(path), str(place.top))
    second.keep(str(path), str(place.top))
    assert data_of(place.trial, path) == b"old"


def test_nothing_is_kept_below_a_folder_that_the_trial_made(place):
    made = place.top / "run"
    keeper = place.keeper()
    keeper.keep(str(made), str(place.top))
    made.mkdir()
    (made / "a").mkdir()
    # Another process does not remember it, and finds the note.
    for each in (keeper, place.keeper()):
        each.keep(str(made / "a" / "b.pt"), str(place.top))
    assert {path: kind for path, (kind, _) in notes(place.trial).items()} == {
        str(made): "nothing",
        str(place.top): "folder",
    }


def test_a_link_and_a_folder_are_notes(place):
    (place.top / "latest").symlink_to("run-7")
    (place.top / "runs").mkdir()
    keeper = place.keeper()
    for name in ("latest", "runs"):
        keeper.keep(str(place.top / name), str(place.top))
    found = notes(place.trial)
    assert found[str(place.top / "latest")][1]["target"] == "run-7"
    assert found[str(place.top / "runs")][0] == "folder"


def test_where_links_cannot_be_made_the_note_is_a_folder(place, monkeypatch):
    from _vtune_hooks import keeping

    def refuse(*arguments):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(keeping, "_symlink", refuse)
    keeper = place.keeper()
    keeper.keep(str(place.top / "run"), str(place.top))
    keeper.keep(str(place.top / "run" / "a.pt"), str(place.top))
    assert {path: kind for path, (kind, _) in notes(place.trial).items()} == {
        str(place.top / "run"): "nothing",
        str(place.top): "folder",
    }


def test_a_renamed_folder_that_holds_the_trial_is_kept_without_it(place):
    from _vtune_hooks.keeping import Keeper
    from _vtune_hooks.told_files import ToldFiles

    trial = place.top / "results" / "trial"
    trial.mkdir(parents=True)
    (trial / "steps.bin").write_bytes(b"x")
    Keeper(str(trial), None, ToldFiles(str(trial))).keep_tree(str(place.top / "results"), str(place.top))
    assert set(notes(trial)) == {str(place.top), str(place.top / "results")}


def test_rights_and_times_alone_need_no_copy(place):
    from _vtune_hooks.protection import METADATA

    path = place.top / "big.bin"
    path.write_bytes(b"x" * 10_000)
    place.keeper(disk_bytes=1).keep(str(path), str(place.top), METADATA)
    assert set(notes(place.trial)) == {f"{path}.meta"}


def test_a_renamed_folder_is_kept_with_all_in_it(place):
    deep = place.top / "old" / "deep"
    deep.mkdir(parents=True)
    (deep / "a.txt").write_bytes(b"a")
    (place.top / "old" / "link").symlink_to("deep")
    place.keeper().keep_tree(str(place.top / "old"), str(place.top))
    found = {path: kind for path, (kind, _) in notes(place.trial).items()}
    assert found == {
        str(place.top): "folder",
        str(place.top / "old"): "folder",
        str(deep): "folder",
        str(deep / "a.txt"): "file",
        str(place.top / "old" / "link"): "link",
    }


def test_a_file_of_several_names_is_kept_once_by_the_first(place):
    one, other = place.top / "one", place.top / "other"
    one.write_bytes(b"old")
    os.link(one, other)
    keeper = place.keeper()
    keeper.keep(str(one), str(place.top))
    one.write_bytes(b"new")
    keeper.keep(str(other), str(place.top))
    (inode,) = (place.trial / "kept").glob("*.inode")
    assert (inode / "data").read_bytes() == b"old"
    assert (inode / "itself").samefile(one)
    names = [json.loads(note.read_text()) for note in (place.trial / "kept").glob("*/name")]
    assert {note["path"]: note["inode"] for note in names} == {str(one): inode.name, str(other): inode.name}


def test_holes_stay_holes(place):
    path = place.top / "sparse"
    with path.open("wb") as file:
        file.truncate(2**26)
        file.seek(2**25)
        file.write(b"x")
    place.keeper().keep(str(path), str(place.top))
    (data,) = (place.trial / "kept").glob("*/data")
    assert data.stat().st_size == 2**26
    assert data.stat().st_blocks <= path.stat().st_blocks + 8
    assert data.read_bytes() == path.read_bytes()


def test_more_than_the_trial_may_take_is_refused_and_told(place):
    paths = [place.top / name for name in ("a", "b", "c")]
    for path in paths:
        path.write_bytes(b"x" * 8192)
    keeper = place.keeper(disk_bytes=21_000)
    keeper.keep(str(paths[0]), str(place.top))
    # Another process counts what the first one took.
    other = place.keeper(disk_bytes=21_000)
    other.keep(str(paths[1]), str(place.top))
    for each in (keeper, other):
        with pytest.raises(OSError) as raised:
            each.keep(str(paths[2]), str(place.top))
        assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(paths[2]))
    (told,) = place.trial.glob("files-*.jsonl")
    fact = json.loads(told.read_text().split("\n")[0])
    assert (fact["fact"], fact["path"], fact["errno"]) == ("not_kept", str(paths[2]), errno.ENOSPC)
    # No half of a copy is left, and what was refused takes no room from others.
    assert not list((place.trial / "kept").glob(".*-*"))
    small = place.top / "small"
    small.write_bytes(b"y")
    other.keep(str(small), str(place.top))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_cannot_be_read_is_refused(place):
    path = place.top / "secret"
    path.write_bytes(b"x")
    path.chmod(0o200)
    with pytest.raises(PermissionError):
        place.keeper().keep(str(path), str(place.top))


def test_of_many_at_once_one_keeps_and_the_others_find_it_whole(place):
    """Each thread has a keeper of its own, as processes have, and changes the file as soon as it may."""
    for number in range(20):
        path = place.top / f"{number}.pt"
        path.write_bytes(b"old" * 5000)
        start = Barrier(4)

        def change(path: Path = path, start: Barrier = start) -> None:
            keeper = place.keeper(disk_bytes=10**9)
            start.wait()
            keeper.keep(str(path), str(place.top))
            path.write_bytes(b"new")

        threads = [Thread(target=change) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert data_of(place.trial, path) == b"old" * 5000
