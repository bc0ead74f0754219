"""A control group of the trial's own: what it holds by the kernel's count, and a wall that it cannot pass.

Loaded by the supervisor, like process_tree. Only folders with our prefix are ever made, joined or removed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping

from vtune.execution.process_tree import process_of, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREFIX = "vtune-"
V1, V2 = "cgroup v1", "cgroup v2"
# Its last process is gone for us some milliseconds before the kernel lets go of the group.
_REMOVE_PATIENCE_S = 2.0
# Pages are charged in batches of 64 by each core: a peak may stay that far below the limit that was met.
_BATCH_BYTES = 2**20


class _Names:
    """What the two versions call the same things."""

    __slots__ = ("anonymous", "count", "limit", "peak", "shared", "swap")

    def __init__(self, *, limit: str, swap: str, peak: str, count: str, anonymous: bytes, shared: bytes) -> None:
        self.limit, self.swap, self.peak, self.count = limit, swap, peak, count
        self.anonymous, self.shared = anonymous, shared


_NAMES = {
    V1: _Names(
        limit="memory.limit_in_bytes",
        swap="memory.memsw.limit_in_bytes",
        peak="memory.max_usage_in_bytes",
        count="memory.oom_control",
        anonymous=b"total_rss",
        shared=b"total_shmem",
    ),
    V2: _Names(
        limit="memory.max",
        swap="memory.swap.max",
        peak="memory.peak",
        count="memory.events",
        anonymous=b"anon",
        shared=b"shmem",
    ),
}


class MemoryGroup:
    """`parent`: an existing group in which the groups of trials may be made; `path` is known before it is there."""

    def __init__(self, kind: str, parent: str, token: str) -> None:
        self.kind = kind
        self.path = os.path.join(parent, PREFIX + token)
        self.wall_bytes: int | None = None
        self._names = _NAMES[kind]
        self._stat: int | None = None

    def make(self, wall_bytes: int | None) -> bool:
        """Whether it is there, with its wall; nothing is left where it could not be had whole."""
        try:
            os.mkdir(self.path)
            if wall_bytes is not None:
                self._write(self._names.limit, wall_bytes)
                # Without this the kernel would swap the trial out at its wall, and time it so.
                with contextlib.suppress(OSError):  # a kernel that does not count swap by group
                    self._write(self._names.swap, wall_bytes if self.kind == V1 else 0)
                if self.kind == V2:
                    # A training that lost one worker to the kernel is no use to anybody.
                    with contextlib.suppress(OSError):
                        self._write("memory.oom.group", 1)
            self._stat = os.open(os.path.join(self.path, "memory.stat"), os.O_RDONLY | os.O_CLOEXEC)
            if self.used_bytes() is None:
                raise OSError
        except OSError:
            self.remove()
            # A folder of an ordinary file system, if it was none of the kernel's: as empty as it was made.
            with contextlib.suppress(OSError):
                os.rmdir(self.path)
            return False
        self.wall_bytes = wall_bytes
        return True

    def join(self) -> None:
        """This very process, and with it all that it will start."""
        self._write("cgroup.procs", 0)

    def used_bytes(self) -> int | None:
        """Anonymous and shared memory, each page once; page cache apart, for the kernel takes it back at the wall."""
        if self._stat is None:
            return None
        try:
            text = os.pread(self._stat, 16384, 0)
        except OSError:
            return None
        entries = _entries(text)
        used = [entries.get(name) for name in (self._names.anonymous, self._names.shared)]
        return None if used[0] is None or used[1] is None else used[0] + used[1]

    def oom_kills(self) -> int | None:
        return _entries(self._read(self._names.count)).get(b"oom_kill")

    def end(self) -> Mapping[str, Any]:
        """What the kernel counted; to be asked for before it is removed."""
        peak = self._number(self._names.peak)
        return {
            "kind": self.kind,
            "limit_bytes": self.wall_bytes,
            "peak_bytes": peak,
            "oom_kills": self.oom_kills(),
            # Version 1 counts only the attempts that reclaiming could not help.
            "at_limit": self.was_at_wall(),
        }

    def was_at_wall(self) -> bool | None:
        """A process in here that the kernel killed may have died for a limit further out."""
        peak = self._number(self._names.peak)
        return None if peak is None or self.wall_bytes is None else peak >= self.wall_bytes - _BATCH_BYTES

    def remove(self) -> bool:
        if self._stat is not None:
            os.close(self._stat)
            self._stat = None
        return remove_group(self.path)

    def _read(self, name: str) -> bytes:
        try:
            with open(os.path.join(self.path, name), "rb", buffering=0) as file:
                return file.read(16384)
        except OSError:
            return b""

    def _number(self, name: str) -> int | None:
        text = self._read(name).strip()
        return int(text) if text.isdigit() else None

    def _write(self, name: str, value: int) -> None:
        # Not created where it is missing: that would be a plain file, and no group.
        descriptor = os.open(os.path.join(self.path, name), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"%d" % value)
        finally:
            os.close(descriptor)


def remove_group(path: str) -> bool:
    """Whether it is gone. What is still in it carries no token any more, but it is the trial's: it came in by birth."""
    if not os.path.basename(path).startswith(PREFIX):
        return False
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "cgroup.procs")):
        return False  # a folder of somebody's that is called like that
    give_up_s = time.monotonic() + _REMOVE_PATIENCE_S
    while os.path.isdir(path) and not os.path.islink(path):
        for folder in _below(path):
            _kill_in(folder)
            with contextlib.suppress(OSError):  # not empty yet
                os.rmdir(folder)
        if time.monotonic() > give_up_s:
            break
        if os.path.isdir(path):
            time.sleep(0.005)
    return not os.path.isdir(path)


def _below(path: str) -> list[str]:
    """Innermost first: a training may have made groups of its own."""
    return [folder for folder, _, _ in os.walk(path, topdown=False)]


def _kill_in(folder: str) -> None:
    try:
        with open(os.path.join(folder, "cgroup.procs"), "rb") as file:
            pids = [int(line) for line in file]
    except (OSError, ValueError):
        return
    for pid in pids:
        process = process_of(pid)
        if process is not None and pid not in (os.getpid(), os.getppid()):
            send(process, signal.SIGKILL)


def _entries(text: bytes) -> dict[bytes, int]:
    pairs = (line.partition(b" ") for line in text.splitlines())
    return {name: int(value) for name, _, value in pairs if value.isdigit()}
