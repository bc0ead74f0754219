"""The log that a training writes, read as it grows: only files, never a pipe or a terminal of somebody else's."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from vtune.analysis.watching.log_lines import told_by
from vtune.domain.watching import Mark

# What was written before: enough for where it stands; more at one look is not read.
TAIL_BYTES = 64 * 2**10
MOST_AT_ONCE = 256 * 2**10
MOST_MARKS = 2000
_LINE_ENDS = re.compile(rb"[\r\n]+")
_COLOURS = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")
# A line longer than that is no line of a log.
_LINE_BYTES = 4096


@dataclass(slots=True)
class _Tail:
    descriptor: int
    at: int
    # The line that has no end yet.
    rest: bytes = b""


class WatchedLog:
    def __init__(self) -> None:
        self.marks: list[Mark] = []
        # Why there is none; None where one is read.
        self.why_none: str | None = "no process of it holds torch yet"
        # By device and inode: output and errors mostly go into one file.
        self._files: dict[tuple[int, int], _Tail] = {}
        self._known: set[int] = set()

    def follow(self, pids: Iterable[int]) -> None:
        """Standard output and errors of these processes, as far as they are files."""
        new = set(pids) - self._known
        if not new:
            return
        self._known |= new
        reasons = [self._open(f"/proc/{pid}/fd/{number}") for pid in sorted(new) for number in (1, 2)]
        self.why_none = None if self._files else next((why for why in reasons if why), None)

    def read(self, now_s: float) -> int:
        """How many lines are new."""
        lines = sum(self._read(file, now_s) for file in self._files.values())
        del self.marks[:-MOST_MARKS]
        return lines

    def close(self) -> None:
        for file in self._files.values():
            with contextlib.suppress(OSError):
                os.close(file.descriptor)
        self._files.clear()

    def _open(self, path: str) -> str | None:
        try:
            status = os.stat(path)
            if stat.S_ISFIFO(status.st_mode):
                behind = _files_behind(os.readlink(path))
                reasons = [self._open(file) for file in behind]
                return None if behind and not any(reasons) else "its output goes into a pipe that ends in no file"
            if not stat.S_ISREG(status.st_mode):
                nowhere = os.readlink(path) == os.devnull
                return "its output is thrown away" if nowhere else "its output goes to a terminal, not a file"
            key = status.st_dev, status.st_ino
            if key not in self._files:
                file = _Tail(os.open(path, os.O_RDONLY | os.O_CLOEXEC), max(0, status.st_size - TAIL_BYTES))
                self._files[key] = file
                self._read(file, None)
        except PermissionError:
            return "its output is not ours to read"
        except OSError:
            return "its output cannot be read"
        return None

    def _read(self, file: _Tail, now_s: float | None) -> int:
        try:
            size = os.fstat(file.descriptor).st_size
            if size < file.at:  # begun anew
                file.at, file.rest = 0, b""
            if size == file.at:
                return 0
            if size - file.at > MOST_AT_ONCE:
                file.at, file.rest = size - MOST_AT_ONCE, b""
            text = os.pread(file.descriptor, size - file.at, file.at)
        except OSError:
            return 0
        file.at += len(text)
        *lines, file.rest = _LINE_ENDS.split(file.rest + text)
        file.rest = file.rest[-_LINE_BYTES:]
        # A progress bar ends its line only when it draws the next: what stands there is the newest.
        for line in [*lines, *([file.rest] if b"\r" in text else [])]:
            told = told_by(_COLOURS.sub("", line[:_LINE_BYTES].decode(errors="replace")))
            if told is not None:
                self.marks.append(Mark(t_s=now_s, told=told))
        return len(lines)


def _files_behind(pipe: str) -> list[str]:
    """`python train.py | tee train.log`: files that the reader of the pipe writes."""
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/fd/0") != pipe:
                continue
            opened = [f"/proc/{pid}/fd/{number}" for number in os.listdir(f"/proc/{pid}/fd") if number != "0"]
            return [path for path in opened if _is_written(path)]
    return []


def _is_written(path: str) -> bool:
    """The link's own mode says what the file was opened for."""
    return bool(os.lstat(path).st_mode & stat.S_IWUSR) and stat.S_ISREG(os.stat(path).st_mode)
