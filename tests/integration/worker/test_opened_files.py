"""Counting a worker's files in real loaders, and that the training is none the wiser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

LOADED = 1


def prepared(tmp_path: Path) -> Path:
    import numpy as np

    folder = tmp_path / "data"
    folder.mkdir()
    np.save(folder / "volume.npy", np.ones(3, dtype=np.float32))
    (folder / "label.txt").write_text("2.0")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.timing
def test_files_of_each_batch_are_counted_and_nothing_else_changes(both: Any, method: str, tmp_path: Path) -> None:
    plain, watched = both("opening.py", prepared(tmp_path), "--start-method", method)
    assert watched.said == plain.said
    assert watched.exit_code == 0, watched.stderr
    assert plain.stderr.count("line buffering") >= 1
    loaded = watched.records(LOADED)
    # Two samples with three files each, in the second batch of each worker; one that was kept waiting by neighbours for
    # longer than a look may take is not counted.
    counts = {one.index: one.n2 for one in loaded}
    assert sorted(counts) == [0, 1, 2, 3, 4, 5] and {counts[2], counts[3]} <= {0, 7} and 7 in counts.values()
    assert [counts[at] for at in (0, 1, 4, 5)] == [0, 0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [pytest.param(("--strict",), marks=pytest.mark.timing), ("--asks",), ("--threads",)], ids=str
)
def test_nobody_sees_the_look(both: Any, options: tuple[str, ...], tmp_path: Path) -> None:
    plain, watched = both("opening.py", prepared(tmp_path), *options)
    assert watched.said == plain.said
    assert watched.exit_code == 0, watched.stderr
    # Who asks, or reads in threads of its own, is not counted.
    assert {one.n2 for one in watched.records(LOADED)} == ({0, 7} if options == ("--strict",) else {0})


@pytest.mark.slow
def test_a_warning_about_encodings_stays_at_its_line(both: Any, tmp_path: Path) -> None:
    # With several workers the lines' order depends on which of them was first.
    command = (sys.executable, "-X", "warn_default_encoding")
    plain, watched = both("opening.py", prepared(tmp_path), "--workers", 1, command=command)
    assert watched.said == plain.said
    assert "EncodingWarning" in plain.stderr


@pytest.mark.slow
def test_a_file_that_is_not_there_fails_in_the_same_words(both: Any, tmp_path: Path) -> None:
    # With several workers torch's own traceback depends on which of them was first.
    plain, watched = both("opening.py", prepared(tmp_path), "--fail", "--workers", 1)
    assert watched.said == plain.said
    assert watched.exit_code == 1 and "FileNotFoundError" in watched.stderr


@pytest.mark.slow
def test_without_workers_nothing_is_counted(both: Any, tmp_path: Path) -> None:
    plain, watched = both("opening.py", prepared(tmp_path), "--workers", 0)
    assert watched.said == plain.said
    assert watched.records(LOADED) == []
