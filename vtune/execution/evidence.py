"""What the kernel says of processes that it killed for memory while a trial ran: its log, and its count."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Self

from vtune.domain.trial import KernelKill
from vtune.telemetry.proc_text import PROC, text_of

KERNEL_LOG = Path("/dev/kmsg")
# "Memory cgroup out of memory: Killed process 71 (python) total-vm:…", "Out of memory: Killed process 71 (python) …"
KILLED = re.compile(r"(?P<group>Memory cgroup out of memory|Out of memory)[^:]*: Killed process (?P<pid>\d+)")
RECORD_BYTES = 8192
# The kernel's own; elsewhere its log has other numbers than we.
FIRST_PID_NAMESPACE = "pid:[4026531836]"
# A log that somebody else fills as fast as it is read must not hold us.
MOST_RECORDS = 20_000


class KernelWitness:
    """Entered before the trial starts, so that what happened before it is not laid at its door."""

    def __init__(self, log: Path = KERNEL_LOG, proc: Path = PROC) -> None:
        self._path, self._proc = log, proc
        self._log: int | None = None
        self._kills_before: int | None = None
        self._of_others = 0
        self._has_our_numbers = _pid_namespace(proc) == FIRST_PID_NAMESPACE

    def __enter__(self) -> Self:
        # Not ours to read in most containers: the count is what is left then.
        with contextlib.suppress(OSError):
            self._log = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._log, 0, os.SEEK_END)
        self._kills_before = self._kills()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._log is not None:
            os.close(self._log)
            self._log = None

    def kills_of_machine(self) -> int | None:
        """Without those that the log, as far as it was read by now, lays at other processes' door."""
        now = self._kills()
        if now is None or self._kills_before is None:
            return None
        return max(0, now - self._kills_before - self._of_others)

    def kills_of(self, pids: Collection[int]) -> tuple[KernelKill, ...]:
        """The log's words on these processes. In a container its numbers are the host's, and others' here."""
        found = []
        for line in self._new_lines():
            killed = KILLED.search(line)
            if killed is None:
                continue
            if not self._has_our_numbers:
                continue
            if int(killed["pid"]) not in pids:
                self._of_others += 1
            else:
                of_group = killed["group"].startswith("Memory")
                found.append(KernelKill(pid=int(killed["pid"]), of_group=of_group, words=line.strip()[:300]))
        return tuple(found)

    def _new_lines(self) -> list[str]:
        lines: list[str] = []
        while self._log is not None and len(lines) < MOST_RECORDS:
            try:
                record = os.read(self._log, RECORD_BYTES)
            except BrokenPipeError:  # the log went on faster than we read: the next read is of what is still there
                continue
            except OSError:
                break
            if not record:
                break
            lines.append(record.decode("utf-8", errors="replace").partition(";")[2].split("\n")[0])
        return lines

    def _kills(self) -> int | None:
        for line in text_of(self._proc / "vmstat").splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill" and value.isdecimal():
                return int(value)
        return None


def _pid_namespace(proc: Path) -> str | None:
    try:
        return os.readlink(proc / "self" / "ns" / "pid")
    except OSError:
        return None
