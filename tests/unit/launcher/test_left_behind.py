"""What an earlier launch left to go on from, as its own files and the output folder tell."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from vtune.journal.counts import HEADER, MAGIC, SEQUENCE, SIZE, SLOT
from vtune.journal.files import dump_json
from vtune.journal.paths import LaunchPaths, StudyPaths
from vtune.launcher.left_behind import has_saved, left_behind

STEP, SAVED = 4, 8


@pytest.fixture
def study(tmp_path: Path) -> StudyPaths:
    return StudyPaths(tmp_path / "results" / "demo")


def a_launch(
    study: StudyPaths, number: int, output: Path | None, *, status: str = "stopped", steps: int = 42, saves: int = 1,
    saved_as: Path | None = None,
) -> LaunchPaths:  # fmt: skip
    launch = study.launch(number)
    folder = launch.attempt(1)
    folder.root.mkdir(parents=True)
    dump_json(launch.launch, {"output": [] if output is None else [str(output)]})
    os.utime(launch.launch, (1000.0, 1000.0))
    dump_json(launch.state, {"status": status, "steps": steps})
    slots = SLOT.pack(STEP, 1, 0, 0, steps, 0, 0.0, 4.0, 1.0)
    slots += SLOT.pack(SAVED, 1, 0, 0, saves, 0, 0.0, 4.0, 1.0) if saves else b""
    text = HEADER.pack(MAGIC, 1, 1 + bool(saves), 1, 5.0) + slots
    tail = SEQUENCE.pack(1)
    (folder.root / "counts-12.bin").write_bytes(text.ljust(SIZE - len(tail), b"\0") + tail)
    if saved_as is not None:
        fact = {"fact": "saved", "pid": 12, "t": 4.0, "begun": 3.9, "seconds": 0.1, "path": str(saved_as)}
        (folder.root / "steps-12.jsonl").write_text(json.dumps(fact) + "\n")
    return launch


def a_file(path: Path, at: float = 2000.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (at, at))
    return path


def test_what_a_stopped_launch_saved_is_found_with_its_steps_and_its_place(study: StudyPaths, tmp_path: Path) -> None:
    out = a_file(tmp_path / "out" / "last.bin").parent
    a_launch(study, 1, out)
    left = left_behind(study, [str(out)])
    assert left is not None and (left.launch, left.status, left.steps, left.places) == (1, "stopped", 42, (out,))


def test_nothing_is_left_where_nothing_was_saved_or_it_was_moved_away(study: StudyPaths, tmp_path: Path) -> None:
    out = a_file(tmp_path / "out" / "log.txt").parent
    a_launch(study, 1, out, saves=0)
    assert left_behind(study, [str(out)]) is None
    a_launch(study, 2, tmp_path / "moved")
    assert left_behind(study, [str(tmp_path / "moved")]) is None
    # Older than the launch: somebody else's.
    a_launch(study, 3, a_file(tmp_path / "old" / "last.pt", at=10.0).parent)
    assert left_behind(study, [str(tmp_path / "old")]) is None


def test_another_folder_is_no_reason(study: StudyPaths, tmp_path: Path) -> None:
    out = a_file(tmp_path / "out" / "last.pt").parent
    a_launch(study, 1, out)
    assert left_behind(study, [str(tmp_path / "other")]) is None
    assert left_behind(study, [str(tmp_path)]) is not None


def test_without_a_known_folder_the_checkpoint_tells_its_own(study: StudyPaths, tmp_path: Path) -> None:
    last = a_file(tmp_path / "runs" / "a" / "last.pt")
    a_launch(study, 1, None, saved_as=last.with_suffix(".new"))
    left = left_behind(study, [])
    assert left is not None and left.places == (last.parent,)
    last.unlink()
    assert left_behind(study, []) is None
    a_launch(study, 2, None)
    left = left_behind(study, [])
    assert left is not None and left.launch == 2 and left.places == ()


def test_a_checkpoint_that_the_counters_did_not_see_is_known_by_its_name(study: StudyPaths, tmp_path: Path) -> None:
    out = a_file(tmp_path / "out" / "model.safetensors").parent
    launch = a_launch(study, 1, out, saves=0)
    assert has_saved(launch, [str(out)]) and left_behind(study, [str(out)]) is not None


def test_a_launch_that_saved_nothing_does_not_hide_what_an_earlier_one_left(study: StudyPaths, tmp_path: Path) -> None:
    out = a_file(tmp_path / "out" / "last.bin").parent
    a_launch(study, 1, out)
    a_launch(study, 2, out, saves=0)
    left = left_behind(study, [str(out)])
    assert left is not None and left.launch == 1
