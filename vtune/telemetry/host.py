"""One look at the trial's processes and the machine around them, from /proc."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from vtune.domain.events import TelemetrySample
from vtune.domain.others import OtherProgram
from vtune.telemetry.cgroup import MemoryGroups
from vtune.telemetry.machine_load import MachineLoad
from vtune.telemetry.memory import MachineMemory, TreeMemory, shared_memory
from vtune.telemetry.other_programs import OtherPrograms, Used, are_ignored
from vtune.telemetry.proc_files import ProcFiles
from vtune.telemetry.proc_text import PROC
from vtune.telemetry.processes import Processes

# Fewer idle cores than this are none: vtune itself takes some of what is left.
FULL_CORES = 0.2
# Others that use less of the cores need no names.
NOTICED_CORES = 0.2
# All processes are read so often while others use the cores, and not at all while they do not: several hundred take
# milliseconds, which a training on full cores would feel. What was read longer ago than this says nothing of now.
NAMED_EVERY_S, TOO_OLD_S = 1.5, 4.0


def available_ram_bytes(proc: Path = PROC) -> int | None:
    """Of the machine, or of the group that leaves least."""
    return MachineMemory(ProcFiles(proc), MemoryGroups(proc)).look(0.0)[0]


class HostSampler:
    """Reads the processes that `pids` names at each sample; this process and `own_pids` are vtune itself."""

    def __init__(
        self,
        pids: Callable[[], Sequence[int]],
        own_pids: Sequence[int] = (),
        *,
        names_others: bool = False,
        proc: Path = PROC,
    ) -> None:
        """`names_others`: also who the others on the cores are."""
        self._pids = pids
        self._own_pids = (os.getpid(), *own_pids)
        self._files = ProcFiles(proc)
        self._processes = Processes(self._files)
        self._tree_memory = TreeMemory(self._files)
        self._machine_memory = MachineMemory(self._files, MemoryGroups(proc))
        self._load = MachineLoad(self._files, proc)
        self._others = _NamedOthers(proc) if names_others and not are_ignored() else None

    @property
    def cores_are_full(self) -> bool:
        return self._load.idle_cores is not None and self._load.idle_cores < FULL_CORES

    def sample(self, now_s: float, with_pss: bool, *, needed: bool = False) -> TelemetrySample:
        """`with_pss`: proportional sizes are due. They are dear, and reading them holds each process' memory lock
        meanwhile: where they would cost too much they are left out, unless they are `needed`; after a jump they are
        read although not due."""
        stats = self._processes.stats(self._pids())
        own = self._processes.stats(self._own_pids)
        self._files.keep_only({*stats, *own})
        processes, anonymous = self._processes.look(stats, now_s)
        available, page_cache = self._machine_memory.look(now_s)
        living = [process.pid for process in processes]
        shm = shared_memory()
        shm_used = None if shm is None else shm.size_bytes - shm.free_bytes
        memory = self._tree_memory
        held = anonymous + (shm_used or 0)
        used = memory.used_bytes(now_s, living, held_bytes=held, due=with_pss, needed=needed)
        if used is not None:
            # Both numbers of a process from one look: their difference is what it shares.
            processes = tuple(
                replace(p, anon_bytes=held_now[0], own_bytes=held_now[1]) if (held_now := memory.held.get(p.pid)) else p
                for p in processes
            )
        others, programs = self._load.others_cores(now_s, {**stats, **own}.values()), None
        if self._others is not None:
            others, programs = self._others.look(now_s, others, (*stats, *own))
        return TelemetrySample(
            t_s=now_s,
            processes=processes,
            ram_bytes=used,
            shm_used_bytes=shm_used,
            others_cores=others,
            programs=programs,
            ram_available_bytes=available,
            page_cache_bytes=page_cache,
        )


class _NamedOthers:
    def __init__(self, proc: Path) -> None:
        self._programs = OtherPrograms(proc)
        self._used = Used(programs=(), kernel_cores=0.0)
        self._looked_s = float("-inf")

    def look(
        self, now_s: float, others_cores: float | None, ours: Sequence[int]
    ) -> tuple[float | None, tuple[OtherProgram, ...]]:
        """The cores that others keep busy without the kernel's own threads, and who they are."""
        if others_cores is None or others_cores < NOTICED_CORES:
            return others_cores, ()
        since_s = now_s - self._looked_s
        if since_s >= NAMED_EVERY_S:
            used = self._programs.look(now_s, ours)
            self._looked_s = now_s
            is_new = used is not None and since_s <= TOO_OLD_S
            self._used = used if used is not None and is_new else Used(programs=(), kernel_cores=0.0)
        return max(0.0, others_cores - self._used.kernel_cores), self._used.programs
