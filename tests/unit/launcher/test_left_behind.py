"""What an earlier launch left to go on from, as its own files and the output folder tell."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from vtune.domain.experiment import Workload
from vtune.execution.launch_prepare import locks_of, note_launch
from vtune.journal.counts import HEADER, MAGIC, SEQUENCE, SIZE, SLOT
from vtune.journal.files import dump_json
from vtune.journal.paths import LaunchPaths, StudyPaths
from vtune.launcher.left_behind import has_saved, left_behind

STEP, SAVED = 4, 8
ENDED = {"ended_by": "itself", "exit_code": None, "signal": None, "seconds": 0.0}


@pytest.fixture
def study(tmp_path: Path) -> StudyPaths:
    return StudyPaths(tmp_path / "results" / "demo")


def a_launch(
    study: StudyPaths, number: int, output: Path | None, *, status: str = "stopped", steps: int = 42, saves: int = 1,
    saved_as: Path | None = None, at: float = 1000.0, **spec: Any,
) -> LaunchPaths:  # fmt: skip
    launch = study.launch(number)
    folder = launch.attempt(1)
    folder.root.mkdir(parents=True)
    dump_json(launch.launch, {"output": [] if output is None else [str(output)], **spec})
    os.utime(launch.launch, (at, at))
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


@pytest.mark.parametrize("name", ["model.safetensors", "last.npz", "weights.h5", "state"])
def test_what_the_counters_did_not_see_written_may_be_a_checkpoint(
    study: StudyPaths, tmp_path: Path, name: str
) -> None:
    out = a_file(tmp_path / "out" / name).parent
    launch = a_launch(study, 1, out, saves=0)
    left = left_behind(study, [str(out)])
    assert has_saved(launch, [str(out)]) and left is not None and left.words.startswith("what may be a checkpoint in")


@pytest.mark.parametrize("name", ["losses.jsonl", "train.LOG", "events.out.tfevents.17.host.9.0", "config.yaml"])
def test_logs_and_pictures_are_no_checkpoint(study: StudyPaths, tmp_path: Path, name: str) -> None:
    out = a_file(tmp_path / "out" / name).parent
    a_launch(study, 1, out, saves=0)
    # Nor are they what is left where the checkpoint was moved away.
    a_launch(study, 2, out)
    assert left_behind(study, [str(out)]) is None


def test_what_was_seen_saved_is_one_whatever_its_name(study: StudyPaths, tmp_path: Path) -> None:
    last = a_file(tmp_path / "out" / "last.out")
    a_launch(study, 1, last.parent, saved_as=last)
    left = left_behind(study, [str(last.parent)])
    assert left is not None and left.is_sure and left.places == (last.parent,)


def test_one_that_was_refused_at_its_start_has_left_nothing(study: StudyPaths, tmp_path: Path) -> None:
    out = a_file(tmp_path / "out" / "last.pt").parent
    launch = a_launch(study, 1, out, saves=0)
    dump_json(launch.attempt(1).outcome, {**ENDED, "start_error": "another training holds its folder"})
    assert left_behind(study, [str(out)]) is None


def test_what_may_have_been_done_counts_the_launches_that_it_went_on_from(study: StudyPaths, tmp_path: Path) -> None:
    out = a_file(tmp_path / "out" / "last.pt").parent
    a_launch(study, 1, out, length={"steps": 2000, "least": 1800, "most_before": 217})
    left = left_behind(study, [str(out)])
    assert left is not None and (left.steps, left.most) == (42, 259)
    a_launch(study, 2, out, length={"steps": 2000, "least": 1800, "most_before": None})
    left = left_behind(study, [str(out)])
    assert left is not None and (left.launch, left.most) == (2, None)


def test_what_another_results_folders_launch_left_in_the_same_place_is_found(study: StudyPaths, tmp_path: Path) -> None:
    out = a_file(tmp_path / "out" / "last.pt").parent
    workload = Workload(command=("python", "train.py", "--output-dir", "out"), cwd=tmp_path)
    launch = a_launch(StudyPaths(tmp_path / "elsewhere" / "demo"), 1, out)
    [_, lock] = locks_of(workload, study)
    lock.parent.mkdir(parents=True)
    note_launch(workload, launch)
    assert left_behind(study, [str(out)]) is None
    left = left_behind(study, [str(out)], workload)
    assert left is not None and left.elsewhere == launch.root and "elsewhere/demo/launches/0001" in left.name


def test_a_launch_that_saved_nothing_does_not_hide_what_an_earlier_one_left(study: StudyPaths, tmp_path: Path) -> None:
    out = a_file(tmp_path / "out" / "last.bin").parent
    a_launch(study, 1, out)
    a_launch(study, 2, out, saves=0, at=3000.0)
    left = left_behind(study, [str(out)])
    assert left is not None and left.launch == 1
