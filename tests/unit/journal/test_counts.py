"""A file of counters that is written over while it is read."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from vtune.journal.counts import HEADER, MAGIC, SEQUENCE, SIZE, SLOT, read_counts, read_counts_of
from vtune.journal.paths import StudyPaths, TrialPaths


def text(*, sequence: int = 1, at_the_end: int | None = None, count: int = 7, version: int = 1, used: int = 1) -> bytes:
    head = HEADER.pack(MAGIC, version, used, sequence, 5.0) + SLOT.pack(4, 1, 0, 0, count, 0, 0.0, 4.0, 1.0)
    tail = SEQUENCE.pack(sequence if at_the_end is None else at_the_end)
    return head.ljust(SIZE - len(tail), b"\0") + tail


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "counts-12.bin"
    path.write_bytes(text())
    (counts,) = read_counts(TrialPaths(tmp_path))
    assert (counts.pid, counts.written_s, counts.counted[0].count) == (12, 5.0, 7)


def test_a_torn_file_is_read_again_until_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "counts-12.bin"
    path.write_bytes(text(sequence=2, at_the_end=1, count=9))
    # What its writer does meanwhile.
    monkeypatch.setattr(time, "sleep", lambda seconds: path.write_bytes(text(sequence=2, count=9)))
    counts = read_counts_of(path)
    assert counts is not None and counts.counted[0].count == 9


def test_what_stays_torn_is_unknown_and_never_half_read(tmp_path: Path) -> None:
    for name, content in {
        "counts-1.bin": text(sequence=2, at_the_end=1),
        "counts-2.bin": text()[:100],
        "counts-3.bin": b"",
        "counts-4.bin": text(version=2),
        "counts-5.bin": text(used=2**31),
        "counts-6.bin": bytes(SIZE),
    }.items():
        (tmp_path / name).write_bytes(content)
    assert read_counts(TrialPaths(tmp_path)) == []
    assert read_counts_of(tmp_path / "counts-9.bin") is None


def test_a_file_that_is_written_all_the_time_is_never_a_mixture(tmp_path: Path) -> None:
    path = tmp_path / "counts-12.bin"
    stop = threading.Event()
    slots = 80

    def write() -> None:
        with open(path, "wb", buffering=0) as file:
            number = 0
            while not stop.is_set():
                number += 1
                head = HEADER.pack(MAGIC, 1, slots, number, 5.0)
                body = b"".join(SLOT.pack(4, 1, source, 0, number, 0, 0.0, 4.0, 1.0) for source in range(slots))
                whole = (head + body).ljust(SIZE - SEQUENCE.size, b"\0") + SEQUENCE.pack(number)
                file.seek(0)
                for at in range(0, SIZE, 512):
                    file.write(whole[at : at + 512])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = []
        deadline = time.monotonic() + 20
        while len(seen) < 50 and time.monotonic() < deadline:
            counts = read_counts_of(path)
            if counts is not None:
                seen.append({one.count for one in counts.counted})
    finally:
        stop.set()
        writer.join()
    assert len(seen) == 50
    assert all(len(counts) == 1 for counts in seen)


def test_launches_and_their_attempts_are_found_by_number(tmp_path: Path) -> None:
    study = StudyPaths(tmp_path)
    assert study.launch_numbers() == []
    assert study.launch(3).attempt_numbers() == []
    for number in (1, 12):
        study.launch(number).attempt(number).root.mkdir(parents=True)
    (study.launches / ".lock").touch()
    (study.launches / "notes").mkdir()
    assert study.launch_numbers() == [1, 12]
    assert study.launch(1).attempt_numbers() == [1]
    assert study.launch(12).attempt(12).outcome == tmp_path / "launches" / "0012" / "attempts" / "12" / "outcome.json"
    assert study.launches_lock.name == ".lock"


def test_a_kind_that_a_later_vtune_counts_is_passed_over(tmp_path: Path) -> None:
    slots = [SLOT.pack(kind, 1, 0, 0, kind, 0, 0.0, 4.0, 1.0) for kind in (77, 4, 9)]
    head = HEADER.pack(MAGIC, 1, len(slots), 1, 5.0) + b"".join(slots)
    (tmp_path / "counts-1.bin").write_bytes(head.ljust(SIZE - SEQUENCE.size, b"\0") + SEQUENCE.pack(1))
    (counts,) = read_counts(TrialPaths(tmp_path))
    assert [(one.kind, one.count) for one in counts.counted] == [("step", 4), ("pass", 9)]
