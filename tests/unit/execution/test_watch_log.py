from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vtune.analysis.watching.log_lines import errors_of
from vtune.execution.watch_log import MOST_AT_ONCE, WatchedLog


@contextlib.contextmanager
def _writing_into(file: Path | int, *, through: list[str] | None = None) -> Iterator[int]:
    """A process that holds it as its output, and sleeps."""
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(file.open("ab")) if isinstance(file, Path) else file
        sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]
        begun = [subprocess.Popen(sleeps, stdout=subprocess.PIPE if through else out, stderr=subprocess.DEVNULL)]
        if through:
            begun.append(subprocess.Popen(through, stdin=begun[0].stdout, stdout=subprocess.DEVNULL))
            time.sleep(0.3)
        try:
            yield begun[0].pid
        finally:
            for process in begun:
                process.kill()
                process.wait()
            if begun[0].stdout:
                begun[0].stdout.close()


@pytest.fixture
def log() -> Iterator[WatchedLog]:
    watched = WatchedLog()
    yield watched
    watched.close()


def _steps(log: WatchedLog) -> list[tuple[float | None, int | None]]:
    return [(mark.t_s, mark.told.step) for mark in log.marks]


def test_what_was_there_before_has_no_time_and_what_comes_has(tmp_path: Path, log: WatchedLog) -> None:
    file = tmp_path / "train.log"
    file.write_text("step 1\n")
    with _writing_into(file) as pid:
        log.follow([pid])
        with file.open("a") as more:
            more.write("step 2\nstep")
        assert log.read(5.0) == 1
        with file.open("a") as more:
            more.write(" 3\n")
        log.read(6.0)
    assert _steps(log) == [(None, 1), (5.0, 2), (6.0, 3)] and log.why_none is None


def test_a_progress_bar_is_read_although_its_line_has_no_end(tmp_path: Path, log: WatchedLog) -> None:
    file = tmp_path / "train.log"
    with _writing_into(file) as pid:
        log.follow([pid])
        file.write_bytes(b"\r 1%| | 1/100 [00:01<01:39, 1.00it/s]\r 2%| | 2/100 [00:02<01:38, 1.00it/s]")
        log.read(1.0)
    assert _steps(log)[-1] == (1.0, 2)


def test_a_log_that_begins_anew_is_read_from_its_beginning(tmp_path: Path, log: WatchedLog) -> None:
    file = tmp_path / "train.log"
    file.write_text("step 100\n" * 10)
    with _writing_into(file) as pid:
        log.follow([pid])
        file.write_text("step 1\n")
        log.read(1.0)
    assert _steps(log)[-1] == (1.0, 1)


def test_a_flood_is_read_at_its_end(tmp_path: Path, log: WatchedLog) -> None:
    file = tmp_path / "train.log"
    with _writing_into(file) as pid:
        log.follow([pid])
        file.write_text("".join(f"step {n}\n" for n in range(MOST_AT_ONCE // 4)))
        log.read(1.0)
    assert _steps(log)[-1] == (1.0, MOST_AT_ONCE // 4 - 1) and len(log.marks) <= 2000


def test_colours_hide_no_error(tmp_path: Path, log: WatchedLog) -> None:
    file = tmp_path / "train.log"
    file.write_text("\x1b[31mValueError\x1b[0m: odd\n")
    with _writing_into(file) as pid:
        log.follow([pid])
    assert errors_of(log.marks) == ("ValueError: odd",)


def test_behind_a_pipe_the_file_of_tee_is_read(tmp_path: Path, log: WatchedLog) -> None:
    file = tmp_path / "train.log"
    with _writing_into(file, through=["tee", str(file)]) as pid:
        log.follow([pid])
        file.write_text("step 7\n")
        log.read(2.0)
    assert _steps(log) == [(2.0, 7)] and log.why_none is None


def test_where_there_is_no_file_it_is_said(log: WatchedLog) -> None:
    reading, writing = os.pipe()
    with _writing_into(writing) as pid:
        log.follow([pid])
    os.close(reading)
    os.close(writing)
    assert log.why_none == "its output goes into a pipe that ends in no file"
