from __future__ import annotations

import os
from pathlib import Path

import pytest

from vtune.execution.tmpdir import make_tmpdir, remove_tmpdir, roomiest_first


def test_where_no_folder_leaves_room_the_users_own_is_taken(tmp_path: Path) -> None:
    parents = [str(tmp_path / ("y" * 90)), "/tmp", "/var/tmp"]
    assert [*roomiest_first(parents)] == [*parents[1:], parents[0]]
    assert [*roomiest_first(parents[:1])] == parents[:1]


def test_it_is_below_the_users_own_and_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", f"/tmp/t{os.urandom(3).hex()}")
    parent = Path(os.environ["TMPDIR"])
    parent.mkdir()
    try:
        made = Path(make_tmpdir())
        assert made.parent == parent and made.stat().st_mode & 0o777 == 0o700
        (made / "left").touch()
        remove_tmpdir(str(made))
        assert not made.exists()
    finally:
        parent.rmdir()


def test_a_folder_that_cannot_be_written_to_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/proc/none")
    made = make_tmpdir()
    try:
        assert not made.startswith("/proc")
    finally:
        remove_tmpdir(made)
