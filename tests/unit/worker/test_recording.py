"""Writing must survive what a training does to its process, and never be what breaks it."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path
from typing import Any

import pytest

SIZE = 48


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    from _vtune_hooks import recorder

    monkeypatch.setattr(recorder, "here", recorder.Process(str(tmp_path), silent=False))
    return recorder


def step(recorder: Any, index: int, now: float) -> None:
    recorder.record(recorder.STEP, 0, 0, 0, index, 0.0, now, 0.0, 0, 0)


def written(folder: Path, pid: int | None = None) -> list[int]:
    path = folder / f"steps-{pid or os.getpid()}.bin"
    text = path.read_bytes() if path.exists() else bytes(16)
    return [struct.unpack_from("<q", text, at + 8)[0] for at in range(16, len(text), SIZE)]


def test_records_are_written_a_few_times_a_second_and_at_the_end(recorder: Any, tmp_path: Path) -> None:
    now = recorder._now()
    step(recorder, 0, now)
    step(recorder, 1, now + 0.1)
    assert written(tmp_path) == [0]
    step(recorder, 2, now + 0.3)
    assert written(tmp_path) == [0, 1, 2]
    recorder.flush()
    assert written(tmp_path) == [0, 1, 2]


def test_a_full_disk_switches_the_recording_off_without_a_word(recorder: Any, tmp_path: Path) -> None:
    recorder.here.records._path = "/dev/full"
    step(recorder, 0, recorder._now())
    assert recorder.here.off
    step(recorder, 1, recorder._now() + 1)
    recorder.fact("problem", text="no place for it")
    assert not recorder.here.pending


def test_a_missing_folder_is_not_made(recorder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "here", recorder.Process(str(tmp_path / "gone"), silent=False))
    step(recorder, 0, recorder._now())
    recorder.fact("end", reason="stop")
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_writes_its_own_file_and_nothing_of_its_parents(recorder: Any, tmp_path: Path) -> None:
    now = recorder._now()
    step(recorder, 0, now)
    step(recorder, 1, now)
    child = os.fork()
    if child == 0:
        step(recorder, 7, recorder._now())
        recorder.flush(wait=True)
        os._exit(0)
    os.waitpid(child, 0)
    recorder.flush(wait=True)
    assert written(tmp_path) == [0, 1]
    assert written(tmp_path, child) == [7]
    assert (tmp_path / f"steps-{child}.jsonl").read_text().count('"hello"') == 1


def test_a_loader_worker_forgets_what_it_inherited_and_tells_no_facts(recorder: Any, tmp_path: Path) -> None:
    recorder.here.flushed_s = recorder._now()
    step(recorder, 0, recorder.here.flushed_s)
    recorder.become_loader_worker()
    recorder.fact("problem", text="unheard")
    step(recorder, 1, recorder._now())
    recorder.flush(wait=True)
    assert written(tmp_path) == [1]
    assert not list(tmp_path.glob("*.jsonl"))


def test_a_file_that_took_over_our_descriptor_is_not_written_to(tmp_path: Path) -> None:
    from _vtune_hooks.append_file import AppendFile

    ours = AppendFile(str(tmp_path / "ours"), header=b"head")
    ours.append(b"1")
    descriptor = ours._descriptor
    assert descriptor is not None
    os.close(descriptor)
    theirs = os.open(tmp_path / "theirs", os.O_WRONLY | os.O_CREAT)
    assert theirs == descriptor
    ours.append(b"2")
    ours.forget()
    os.write(theirs, b"mine")
    os.close(theirs)
    assert (tmp_path / "theirs").read_bytes() == b"mine"
    assert (tmp_path / "ours").read_bytes() == b"head12"


def test_a_write_that_was_cut_short_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from _vtune_hooks.append_file import AppendFile

    ours = AppendFile("/dev/full")
    with pytest.raises(OSError) as caught:
        ours.append(b"1")
    assert caught.value.errno == errno.ENOSPC
