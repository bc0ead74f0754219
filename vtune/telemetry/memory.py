"""Memory: of the trial's tree each page once, and what the machine (or the control group) still has."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vtune.telemetry.cgroup import MemoryGroups
from vtune.telemetry.proc_files import ProcFiles
from vtune.telemetry.proc_text import text_of

SHM = "/dev/shm"
# Reading proportional sizes walks every mapped page: 3 to 11 ms a process with torch in it, and some 16 ms more for
# each GiB that it shares in small pages. The whole sampler may take one per cent of a core, the readings this share …
PSS_SHARE = 0.006
# … and so much in advance: half a minute's trial stays below that per cent, too.
PSS_AT_ONCE_S = 0.06
# A limit is watched over: copies on write show in no other number, so nothing makes the readings rarer than this.
PSS_APART_S = 30.0
# A jump is looked at at once and whatever it costs: it may be on its way to the limit, and gone in a second.
JUMP = 1.05
JUMP_BYTES = 64 * 2**20
# The counts of a control group are summed over all cores of the machine when they are read.
GROUPS_EVERY_S = 1.0


class TreeMemory:
    def __init__(self, files: ProcFiles, clock: Callable[[], float] = time.thread_time) -> None:
        self._files = files
        self._clock = clock
        self._credit_s = PSS_AT_ONCE_S
        self._credited_s: float | None = None
        self._last_cost_s = 0.0
        self._last_s = float("-inf")
        # Of the last reading, by process: what it holds of no file, and its part of that, each page divided by all
        # who hold it.
        self.held: dict[int, tuple[int, int]] = {}
        # None before the first reading: a jump is one from something.
        self._held_then: int | None = None

    def used_bytes(
        self, now_s: float, pids: Sequence[int], *, held_bytes: int, due: bool, needed: bool = False
    ) -> int | None:
        """Anonymous and shared memory, each page once however many processes hold it; None between two readings: when
        none is due, or it would cost too much now and is not needed. `held_bytes` tells a jump: what is cheap to know
        of the same memory, even if it counts some pages twice."""
        if self._credited_s is not None:
            most = max(PSS_AT_ONCE_S, self._last_cost_s)
            self._credit_s = min(most, self._credit_s + PSS_SHARE * max(0.0, now_s - self._credited_s))
        self._credited_s = now_s
        dear = self._credit_s < self._last_cost_s and now_s - self._last_s < PSS_APART_S
        jumped = self._held_then is not None and held_bytes > JUMP * self._held_then + JUMP_BYTES
        if not (jumped or needed) and (dear or not due):
            return None
        begun = self._clock()
        used = self._sum(pids)
        self._last_cost_s, self._last_s = self._clock() - begun, now_s
        # Jumps are not paid back: after a start-up full of them, readings go on at their pace.
        self._credit_s = max(0.0, self._credit_s - self._last_cost_s)
        self._held_then = held_bytes
        return used

    def _sum(self, pids: Sequence[int]) -> int | None:
        shares, self.held = [], {}
        for pid in pids:
            try:
                with open(f"{self._files.root}/{pid}/smaps_rollup", "rb", buffering=0) as file:
                    text = file.readall()
            except (FileNotFoundError, ProcessLookupError):
                if self._files.of_process(pid, "statm").strip(b"0 \n"):
                    return None  # a kernel without this file
                continue
            except OSError:
                return None  # another user's: the sum would be too small
            entries = dict(line.split(b":", 1) for line in text.splitlines()[1:])
            if b"Pss_Anon" not in entries or b"Pss_Shmem" not in entries:
                if text:
                    return None  # before Linux 5.9
                continue
            part, shared = (int(entries[key].split()[0]) * 1024 for key in (b"Pss_Anon", b"Pss_Shmem"))
            shares.append(part + shared)
            if b"Anonymous" in entries:
                self.held[pid] = int(entries[b"Anonymous"].split()[0]) * 1024, part
        return sum(shares) if shares else None


class MachineMemory:
    def __init__(self, files: ProcFiles, groups: MemoryGroups) -> None:
        self._files = files
        self._groups = groups
        self._due_s = float("-inf")
        self._available: int | None = None
        self._page_cache: int | None = None

    def look(self, now_s: float) -> tuple[int | None, int | None]:
        """Available bytes, and those of the page cache: of the machine, or of the group that leaves least."""
        if now_s >= self._due_s:
            self._due_s = now_s + GROUPS_EVERY_S
            text = self._files.whole("meminfo")
            machine = meminfo_bytes(text, b"MemAvailable")
            known = [b for b in (machine, self._groups.available_bytes()) if b is not None]
            self._available = min(known, default=None)
            self._page_cache = self._groups.page_cache_bytes()
            if self._page_cache is None:
                self._page_cache = _page_cache_bytes(text)
        return self._available, self._page_cache


def meminfo_bytes(text: bytes, key: bytes) -> int | None:
    for line in text.splitlines():
        name, _, value = line.partition(b":")
        if name == key:
            return int(value.split()[0]) * 1024
    return None


def built_in_bytes(proc: Path) -> int | None:
    return meminfo_bytes(os.fsencode(text_of(proc / "meminfo")), b"MemTotal")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory:
    size_bytes: int
    free_bytes: int


def shared_memory(path: str = SHM) -> SharedMemory | None:
    """None where there is none."""
    try:
        status = os.statvfs(path)
    except OSError:
        return None
    return SharedMemory(size_bytes=status.f_blocks * status.f_frsize, free_bytes=status.f_bfree * status.f_frsize)


def _page_cache_bytes(meminfo: bytes) -> int | None:
    """The kernel counts shared memory as cached, but it is not to be had back."""
    cached, shared = meminfo_bytes(meminfo, b"Cached"), meminfo_bytes(meminfo, b"Shmem")
    if cached is None or shared is None:
        return None
    return max(0, cached + (meminfo_bytes(meminfo, b"Buffers") or 0) - shared)
