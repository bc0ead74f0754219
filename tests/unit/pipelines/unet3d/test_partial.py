"""Files that are whole or absent, also when two processes write the same."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from vtune.pipelines.unet3d.partial import partial_of, whole_or_absent


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_it_has_its_name_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a [b] c"
    with whole_or_absent(path) as partial:
        partial.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    with pytest.raises(ZeroDivisionError), whole_or_absent(path) as partial:
        partial.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "new"
    assert names(tmp_path) == [path.name]


def test_another_processs_unfinished_one_is_let_alone_and_a_dead_ones_is_cleared(tmp_path: Path) -> None:
    path = tmp_path / "out.npy"
    with subprocess.Popen(["true"]) as ended:
        pass
    theirs, left = partial_of(path, os.getppid()), partial_of(path, ended.pid)
    for partial in (theirs, left):
        partial.write_text("half")
    with whole_or_absent(path) as partial:
        assert partial not in (theirs, left)
        partial.write_text("whole")
    assert names(tmp_path) == sorted([path.name, theirs.name])
    assert theirs.read_text() == "half"
