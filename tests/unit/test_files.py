from __future__ import annotations

from pathlib import Path

import pytest

from vtune.files import write_atomically


def test_a_file_is_replaced_whole_with_its_line_ends_as_they_are(tmp_path: Path) -> None:
    target = tmp_path / "a.csv"
    target.write_text("old")
    write_atomically(target, "ü\r\n\n")
    assert target.read_bytes() == "ü\r\n\n".encode()
    assert list(tmp_path.iterdir()) == [target]


def test_a_failed_write_names_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "a folder"
    target.mkdir()
    with pytest.raises(OSError) as caught:
        write_atomically(target, "x")
    assert caught.value.filename == str(target)
    with pytest.raises(UnicodeEncodeError):
        write_atomically(tmp_path / "b", "\udcff")
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_that_is_not_there_is_said_with_the_name_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere/a\.json"):
        write_atomically(tmp_path / "nowhere" / "a.json", "x")
