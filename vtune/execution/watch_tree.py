"""A training that vtune did not start, looked at from outside: /proc alone, nothing is sent, traced or written."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from vtune.analysis.watching.roles import roles_of
from vtune.domain.watching import Look, ProcessNow, Role, Seen
from vtune.execution.process_tree import Process, descendants, process_of, processes
from vtune.telemetry.cgroup import MemoryGroups
from vtune.telemetry.machine_load import MachineLoad
from vtune.telemetry.memory import MachineMemory, TreeMemory, shared_memory
from vtune.telemetry.proc_files import ProcFiles
from vtune.telemetry.proc_text import PROC
from vtune.telemetry.processes import Processes, Stat

# Listing all of a machine's processes is the dear part of a look; a worker may be unknown for so long.
FIND_EVERY_S = 2.0
# A training loads torch in its first seconds.
_ASK_AGAIN_S = 5.0
PSS_EVERY_S = 5.0
_TORCH = re.compile(rb" (/[^\n]*)/libtorch\w*\.so")
_GPU_FILE = re.compile(r"/dev/(nvidia\d+|kfd)$")


def seen_process(process: Process) -> Seen:
    pid = process.pid
    holds, version = _torch(pid)
    return Seen(
        ppid=process.ppid,
        name=_text(pid, "comm").strip(),
        command=tuple(_text(pid, "cmdline").rstrip("\0").split("\0")),
        holds_torch=holds,
        torch=version,
        on_gpu=_is_on_gpu(pid),
    )


class WatchedTree:
    def __init__(self, root: int) -> None:
        self.root = root
        self._files = ProcFiles(PROC)
        self._processes = Processes(self._files)
        self._memory = TreeMemory(self._files)
        self._machine_memory = MachineMemory(self._files, MemoryGroups(PROC))
        self._load = MachineLoad(self._files, PROC)
        self._started = process_of(root)
        self._seen: dict[int, tuple[int, Seen]] = {}
        self._roles: dict[int, Role] = {}
        self._names: dict[int, str] = {}
        self._find_s = self._ask_s = self._pss_s = float("-inf")
        # Each process' own part of the memory, of the last dear reading.
        self.parts: dict[int, int] = {}

    @property
    def lives(self) -> bool:
        now = process_of(self.root)
        return (
            now is not None
            and self._started is not None
            and now.living
            and now.started_ticks == self._started.started_ticks
        )

    @property
    def ran_s(self) -> float:
        ticks = self._started.started_ticks if self._started is not None else 0
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))

    @property
    def command(self) -> tuple[str, ...]:
        found = self._seen.get(self.trainings[0] if self.trainings else self.root)
        return found[1].command if found is not None else ()

    @property
    def trainings(self) -> list[int]:
        return sorted(pid for pid, role in self._roles.items() if role == "training")

    @property
    def on_gpu(self) -> bool:
        return any(seen.on_gpu for _, seen in self._seen.values())

    def refused(self) -> str | None:
        """What of it may not be read; None where everything may."""
        if os.access(f"/proc/{self.root}/io", os.R_OK) and _can_list(f"/proc/{self.root}/fd"):
            return None
        with contextlib.suppress(OSError):
            owner = os.stat(f"/proc/{self.root}").st_uid
            if owner != os.geteuid():
                return (
                    f"process {self.root} is user {_user(owner)}'s: its memory with each page once, disk and log are "
                    "not ours to read; watch as that user or as root"
                )
        return f"process {self.root} does not let itself be looked into: memory with each page once, disk and log"

    def look(self, now_s: float, *, log_lines: int = 0) -> Look:
        if now_s >= self._find_s:
            self._find_s = now_s + FIND_EVERY_S
            self._find(now_s)
        stats = self._processes.stats([*self._seen])
        own = self._processes.stats([os.getpid()])
        self._files.keep_only({*stats, *own})
        self._name(stats)
        found = tuple(self._process(pid, stat) for pid, stat in stats.items() if not stat.zombie)
        available, _ = self._machine_memory.look(now_s)
        shm = shared_memory()
        return Look(
            t_s=now_s,
            processes=found,
            ram_bytes=self._ram(now_s, found),
            ram_available_bytes=available,
            shm_used_bytes=None if shm is None else shm.size_bytes - shm.free_bytes,
            others_cores=self._load.others_cores(now_s, {**stats, **own}.values()),
            log_lines=log_lines,
        )

    def _ram(self, now_s: float, found: Sequence[ProcessNow]) -> int | None:
        held = sum(process.anon_bytes or 0 for process in found)
        due = now_s >= self._pss_s
        used = self._memory.used_bytes(now_s, [process.pid for process in found], held_bytes=held, due=due)
        if used is not None:
            self._pss_s = now_s + PSS_EVERY_S
            self.parts = {pid: part for pid, (_, part) in self._memory.held.items()}
        return used

    def _process(self, pid: int, stat: Stat) -> ProcessNow:
        pages = self._files.of_process(pid, "statm").split(None, 3)
        words = self._files.of_process(pid, "io").split()
        entries = dict(zip(words[::2], words[1::2], strict=False))
        scheduled = self._files.of_process(pid, "schedstat").split()
        role = self._roles.get(pid, "other")
        # Who runs sleeps nowhere; of the others it is asked only where the verdict needs it.
        asks = role in ("training", "worker") and stat.state in "SD"
        sleeps = self._files.of_process(pid, "wchan").decode(errors="replace").strip() if asks else ""
        counters = [int(entries[key]) for key in (b"rchar:", b"wchar:") if key in entries]
        return ProcessNow(
            pid=pid,
            role=role,
            state=stat.state,
            cpu_s=stat.cpu_s,
            queued_s=int(scheduled[1]) * 1e-9 if len(scheduled) == 3 and scheduled[2] != b"0" else None,
            anon_bytes=(int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE") if len(pages) >= 3 else None,
            moved_bytes=sum(counters) if counters else None,
            read_bytes=int(entries[b"read_bytes:"]) if b"read_bytes:" in entries else None,
            written_bytes=int(entries[b"write_bytes:"]) if b"write_bytes:" in entries else None,
            # The compiler's suffixes say nothing to anybody.
            sleeps_in=sleeps.partition(".")[0] if sleeps not in ("", "0") else None,
        )

    def _find(self, now_s: float) -> None:
        table = processes()
        root = table.get(self.root)
        tree = {} if root is None else {self.root: root, **descendants([self.root], table)}
        ask_again = now_s >= self._ask_s
        if ask_again:
            self._ask_s = now_s + _ASK_AGAIN_S
        known: dict[int, tuple[int, Seen]] = {}
        for pid, process in tree.items():
            before = self._seen.get(pid)
            if before is None or before[0] != process.started_ticks or (ask_again and not before[1].holds_torch):
                known[pid] = process.started_ticks, seen_process(process)
            else:
                known[pid] = before
        changed = known.keys() != self._seen.keys() or ask_again
        self._seen = known
        if changed:
            self._roles = roles_of({pid: seen for pid, (_, seen) in known.items()})

    def _name(self, stats: dict[int, Stat]) -> None:
        """A worker gets its name a moment after it was started."""
        names = {pid: stat.name for pid, stat in stats.items()}
        if names == self._names:
            return
        self._names = names
        for pid, name in names.items():
            ticks, seen = self._seen[pid]
            if seen.name != name:
                process = process_of(pid)
                self._seen[pid] = ticks, seen_process(process) if process is not None else seen
        self._roles = roles_of({pid: seen for pid, (_, seen) in self._seen.items()})


def _torch(pid: int) -> tuple[bool | None, tuple[int, int] | None]:
    try:
        with open(f"/proc/{pid}/maps", "rb", buffering=0) as file:
            found = _TORCH.search(file.readall())
    except OSError:
        return None, None
    return (False, None) if found is None else (True, _version(os.fsdecode(found[1])))


@cache
def _version(folder: str) -> tuple[int, int] | None:
    try:
        text = Path(folder).parent.joinpath("version.py").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"__version__ = ['\"](\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found is not None else None


def _is_on_gpu(pid: int) -> bool:
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if _GPU_FILE.match(os.readlink(f"/proc/{pid}/fd/{name}")):
                    return True
    return False


def environment(pid: int) -> list[str]:
    """Empty where it is not ours to read."""
    return _text(pid, "environ").split("\0")


def _text(pid: int, name: str) -> str:
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.readall().decode(errors="replace")
    except OSError:
        return ""


def _can_list(folder: str) -> bool:
    try:
        os.listdir(folder)
    except OSError:
        return False
    return True


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
