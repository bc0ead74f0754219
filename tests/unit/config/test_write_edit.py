"""What is put in the place of a user's file, and what that must never cost."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli import quiet_env
from vtune.config.write_edit import free_name, write_beside, write_edit
from vtune.errors import StorageError, UsageError

OLD, NEW = b"workers: 1\n", b"workers: 4\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    file = folder / "c.yaml"
    file.write_bytes(OLD)
    file.chmod(0o640)
    os.utime(file, (1e9, 1e9))
    return file


def names(file: Path) -> list[str]:
    return sorted(os.listdir(file.parent))


def test_the_new_file_has_the_mode_and_its_own_time_and_the_backup_those_of_the_old(file: Path) -> None:
    backup = write_edit(file, OLD, NEW)
    assert (file.read_bytes(), backup.read_bytes()) == (NEW, OLD)
    assert [stat.S_IMODE(one.stat().st_mode) for one in (file, backup)] == [0o640, 0o640]
    assert file.stat().st_mtime > 1.5e9 and backup.stat().st_mtime == 1e9
    assert names(file) == ["c.yaml", "c.yaml.bak"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_stays(file: Path) -> None:
    os.chown(file, 12345, 54321)
    backup = write_edit(file, OLD, NEW)
    assert {(one.stat().st_uid, one.stat().st_gid) for one in (file, backup)} == {(12345, 54321)}


def test_no_backup_is_ever_written_over(file: Path) -> None:
    for number in range(3):
        write_edit(file, b"%d" % number if number else OLD, b"%d" % (number + 1))
    (file.parent / "c.yaml.bak.3").symlink_to("nowhere")
    write_edit(file, b"3", b"4")
    found = [(file.parent / f"c.yaml.bak{end}").read_bytes() for end in ("", ".1", ".2", ".4")]
    assert found == [OLD, b"1", b"2", b"3"] and not (file.parent / "nowhere").exists()


def test_a_link_stays_and_the_file_that_it_names_is_changed_with_its_backup_there(file: Path) -> None:
    elsewhere = file.parent.parent / "links"
    elsewhere.mkdir()
    (elsewhere / "a.yaml").symlink_to(file)
    (elsewhere / "b.yaml").symlink_to("a.yaml")
    assert write_edit(elsewhere / "b.yaml", OLD, NEW) == file.parent / "c.yaml.bak"
    assert (elsewhere / "b.yaml").is_symlink() and (elsewhere / "a.yaml").is_symlink() and not file.is_symlink()
    assert file.read_bytes() == NEW and sorted(os.listdir(elsewhere)) == ["a.yaml", "b.yaml"]


def test_what_was_saved_since_it_was_read_stays(file: Path) -> None:
    with pytest.raises(UsageError, match="changed meanwhile"):
        write_edit(file, b"other", NEW)
    assert file.read_bytes() == OLD and names(file) == ["c.yaml"]


def test_what_is_saved_while_it_is_written_stays(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: file.write_bytes(b"saved by an editor"))
    with pytest.raises(UsageError, match="changed meanwhile"):
        write_edit(file, OLD, NEW)
    assert file.read_bytes() == b"saved by an editor" and names(file) == ["c.yaml"]


def test_a_disk_that_fills_up_leaves_all_as_it_was(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left") as refused:
        write_edit(file, OLD, NEW)
    assert refused.value.exit_code == 3 and file.read_bytes() == OLD and names(file) == ["c.yaml"]


def test_what_would_belong_to_somebody_else_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    other = os.stat_result((*file.stat()[:4], 12345, *file.stat()[5:]))
    monkeypatch.setattr(os, "fstat", lambda handle: other)
    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(StorageError, match="would not belong any more"):
        write_edit(file, OLD, NEW)
    assert file.read_bytes() == OLD and names(file) == ["c.yaml"]


WRITES = """
import sys
from pathlib import Path
from vtune.config.write_edit import write_edit
from vtune.errors import VtuneError
try:
    write_edit(Path(sys.argv[1]), b"workers: 1\\n", b"workers: 4\\n")
except VtuneError as error:
    print(error.message)
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize("locked", ["the folder", "the file"])
def test_what_may_not_be_written_is_refused_and_stays(file: Path, locked: str) -> None:
    # Root may do all without asking; without its capabilities it asks like anybody.
    like_anybody = [] if os.geteuid() else ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    if like_anybody and shutil.which(like_anybody[0]) is None:
        pytest.skip("no setpriv, so root is refused nothing")
    place = file.parent if locked == "the folder" else file
    place.chmod(0o555 if locked == "the folder" else 0o444)
    try:
        command = [*like_anybody, sys.executable, "-c", WRITES, str(file)]
        said = subprocess.run(command, env=quiet_env(), capture_output=True, text=True, timeout=60)
    finally:
        place.chmod(0o755)
    assert (said.returncode, said.stdout) == (3, f"{file} cannot be written: Permission denied\n"), said.stderr
    assert file.read_bytes() == OLD and names(file) == ["c.yaml"]


def test_a_file_beside_is_for_the_same_eyes_and_takes_nobodys_name(file: Path) -> None:
    name = file.with_name("c.tuned.yaml")
    first = write_beside(file, name, "a: 1\n")
    assert first == name and stat.S_IMODE(first.stat().st_mode) == 0o640
    assert write_beside(file, name, "a: 1\n") == name
    second = write_beside(file, name, "a: 2\n")
    assert second.name == "c.tuned.1.yaml" and first.read_text() == "a: 1\n"
    assert free_name(name, "a: 3\n").name == "c.tuned.2.yaml"
