"""How many of the cores that the trial may use were kept busy by others, and how many by nobody."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from vtune.telemetry.cgroup import CpuGroup, cpu_group
from vtune.telemetry.cores import allowed_cores
from vtune.telemetry.proc_files import ProcFiles
from vtune.telemetry.processes import TICK_S, Stat

# The neighbours are judged over this long: the kernel counts in 10 ms, and a new process of the trial is known to us
# only up to a second after its start; until then it counts as a neighbour.
OVER_S = 2.0
# On machines of a hundred cores the kernel takes most of a millisecond for /proc/stat.
EVERY_S = 0.4


@dataclass(frozen=True, slots=True)
class _Spent:
    """Processor seconds up to a moment."""

    at_s: float
    cores: int
    on_cores: float
    in_group: float | None
    ours: float


class MachineLoad:
    def __init__(self, files: ProcFiles, proc: Path, allowed: frozenset[int] | None = None) -> None:
        """`allowed`: the cores by number; as this process finds them when not given."""
        self._files = files
        self._group: CpuGroup | None = cpu_group(proc)
        self._allowed = allowed_cores() if allowed is None else allowed
        # The oldest first.
        self._spent: deque[_Spent] = deque()
        self._due_s = float("-inf")
        self._others: float | None = None
        # Over the same time; None before the second look.
        self.idle_cores: float | None = None

    def others_cores(self, now_s: float, ours: Iterable[Stat]) -> float | None:
        """`ours`: the trial's processes and vtune's own."""
        if now_s >= self._due_s:
            self._due_s = now_s + EVERY_S
            self._others = self._look(now_s, sum(stat.cpu_s + stat.children_cpu_s for stat in ours))
        return self._others

    def _look(self, now_s: float, ours: float) -> float | None:
        machine = self._machine()
        if machine is None:
            return None
        if self._spent and ours < self._spent[-1].ours:
            # One of ours ended and nobody waited for it: its seconds are gone from our sum, but not from the machine's.
            self._spent.clear()
        while len(self._spent) > 1 and self._spent[1].at_s <= now_s - OVER_S:
            self._spent.popleft()
        cores, on_cores = machine
        now = _Spent(now_s, cores, on_cores, self._group.used_s() if self._group else None, ours)
        self._spent.append(now)
        before = self._spent[0]
        return self._between(before, now) if now.at_s > before.at_s else None

    def _between(self, before: _Spent, now: _Spent) -> float:
        seconds = now.at_s - before.at_s
        own = (now.ours - before.ours) / seconds
        cores = now.cores if self._group is None else min(now.cores, self._group.quota_cores)
        taken = self._taken(before, now, own, max(0.0, (now.on_cores - before.on_cores) / seconds - own))
        self.idle_cores = max(0.0, cores - own - taken)
        return taken

    def _taken(self, before: _Spent, now: _Spent, own: float, others: float) -> float:
        if self._group is None or self._group.quota_cores >= now.cores:
            return others
        # Under a quota the rest of the machine may be as busy as it likes, as long as it leaves the quota to us; who
        # shares the quota takes from it directly.
        taken = max(0.0, others - (now.cores - self._group.quota_cores))
        if now.in_group is None or before.in_group is None:
            return taken
        return max(taken, (now.in_group - before.in_group) / (now.at_s - before.at_s) - own)

    def _machine(self) -> tuple[int, float] | None:
        """The cores that we may use, and all that was done on them."""
        lines = self._files.whole("stat").split(b"\nintr", 1)[0].splitlines()
        if not lines or len(lines[0].split()) < 9:
            return None
        single = [line for line in lines[1:] if line.startswith(b"cpu")]
        ours = [line for line in single if int(line[3 : line.index(b" ")]) in self._allowed]
        if not ours or len(ours) == len(single):
            return max(1, len(single)), _busy_s(lines[0])
        return len(ours), sum(_busy_s(line) for line in ours)


def _busy_s(line: bytes) -> float:
    """Everything but idling. Time stolen by other virtual machines is a neighbour's as well."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(field) for field in line.split()[1:9])
    return (user + nice + system + irq + softirq + steal) * TICK_S
