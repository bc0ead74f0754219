"""The trial's processes and the machine around them, read from /proc."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vtune.domain.events import ProcessSample, TelemetrySample
from vtune.telemetry.cgroup import PROC, MemoryGroups

SHM = "/dev/shm"
# The neighbours are judged over this long: the kernel counts in 10 ms, and a new process of the trial is known to us
# only up to a second after its start; until then it counts as a neighbour.
OTHERS_OVER_S = 2.0
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stat:
    ppid: int
    name: str
    zombie: bool
    cpu_s: float
    # Of the children it has waited for: without it, a process that ended would take its seconds along.
    children_cpu_s: float


class HostSampler:
    """Reads the processes that `pids` names at each sample; this process and `own_pids` are vtune itself."""

    def __init__(self, pids: Callable[[], Sequence[int]], own_pids: Sequence[int] = (), *, proc: Path = PROC) -> None:
        self._pids = pids
        self._own_pids = (os.getpid(), *own_pids)
        self._proc = str(proc)
        self._memory_groups = MemoryGroups(proc)
        # (time, processor seconds of the machine, of the trial and vtune), the oldest first
        self._spent: deque[tuple[float, float, float]] = deque()

    def sample(self, now_s: float, with_pss: bool) -> TelemetrySample:
        """`with_pss` costs 6 to 11 ms a process with torch in it, and holds its memory lock meanwhile."""
        pids = self._pids()
        stats = {pid: stat for pid in pids if (stat := self._stat(pid)) is not None}
        return TelemetrySample(
            t_s=now_s,
            processes=tuple(
                ProcessSample(pid=pid, ppid=stat.ppid, name=stat.name, rss_bytes=rss, cpu_s=stat.cpu_s)
                for pid, stat in stats.items()
                if not stat.zombie and (rss := self._rss_bytes(pid)) is not None
            ),
            ram_bytes=self._ram_bytes([pid for pid, stat in stats.items() if not stat.zombie]) if with_pss else None,
            shm_used_bytes=_shm_used_bytes(),
            others_cores=self._others_cores(now_s, stats),
            ram_available_bytes=self._ram_available_bytes(),
        )

    def _stat(self, pid: int) -> _Stat | None:
        line = self._read(f"{pid}/stat")
        # The name stands in parentheses and may itself hold spaces and parentheses.
        opened, closed = line.find(b"("), line.rfind(b")")
        fields = line[closed + 2 :].split()
        if len(fields) < 15:  # gone
            return None
        return _Stat(
            ppid=int(fields[1]),
            name=line[opened + 1 : closed].decode("utf-8", errors="replace"),
            zombie=fields[0] in b"ZX",
            cpu_s=(int(fields[11]) + int(fields[12])) * _TICK_S,
            children_cpu_s=(int(fields[13]) + int(fields[14])) * _TICK_S,
        )

    def _rss_bytes(self, pid: int) -> int | None:
        fields = self._read(f"{pid}/statm").split()
        return int(fields[1]) * _PAGE_BYTES if len(fields) > 1 else None

    def _ram_bytes(self, pids: Sequence[int]) -> int | None:
        """Anonymous and shared memory, each page once however many processes of the trial hold it."""
        shares = []
        for pid in pids:
            try:
                with open(f"{self._proc}/{pid}/smaps_rollup", "rb") as file:
                    text = file.read()
            except (FileNotFoundError, ProcessLookupError):
                stat = self._stat(pid)
                if stat is not None and not stat.zombie:
                    return None  # a kernel without this file
                continue
            except OSError:
                return None  # another user's: the sum would be too small
            entries = dict(line.split(b":", 1) for line in text.splitlines()[1:])
            if b"Pss_Anon" not in entries or b"Pss_Shmem" not in entries:
                if text:
                    return None  # before Linux 5.9
                continue
            shares.append(sum(int(entries[key].split()[0]) * 1024 for key in (b"Pss_Anon", b"Pss_Shmem")))
        return sum(shares) if shares else None

    def _others_cores(self, now_s: float, stats: dict[int, _Stat]) -> float | None:
        machine = self._machine_cpu_s()
        if machine is None:
            return None
        own = [stat for pid in self._own_pids if (stat := self._stat(pid)) is not None]
        ours = sum(stat.cpu_s + stat.children_cpu_s for stat in (*stats.values(), *own))
        while len(self._spent) > 1 and self._spent[1][0] <= now_s - OTHERS_OVER_S:
            self._spent.popleft()
        before = self._spent[0] if self._spent else None
        self._spent.append((now_s, machine, ours))
        if before is None or now_s <= before[0]:
            return None
        return max(0.0, (machine - before[1]) - (ours - before[2])) / (now_s - before[0])

    def _machine_cpu_s(self) -> float | None:
        """Everything but idling. Time stolen by other virtual machines is a neighbour's as well."""
        fields = self._read("stat").split(b"\n", 1)[0].split()[1:]
        if len(fields) < 8:
            return None
        user, nice, system, _idle, _iowait, irq, softirq, steal = (int(field) for field in fields[:8])
        return (user + nice + system + irq + softirq + steal) * _TICK_S

    def _ram_available_bytes(self) -> int | None:
        machine = meminfo_bytes(self._read("meminfo"), b"MemAvailable")
        known = [b for b in (machine, self._memory_groups.available_bytes()) if b is not None]
        return min(known, default=None)

    def _read(self, name: str) -> bytes:
        try:
            with open(f"{self._proc}/{name}", "rb") as file:
                return file.read()
        except OSError:  # a process that ended meanwhile is normal
            return b""


def meminfo_bytes(text: bytes, key: bytes) -> int | None:
    for line in text.splitlines():
        name, _, value = line.partition(b":")
        if name == key:
            return int(value.split()[0]) * 1024
    return None


def _shm_used_bytes() -> int | None:
    try:
        status = os.statvfs(SHM)
    except OSError:
        return None
    return (status.f_blocks - status.f_bfree) * status.f_frsize
