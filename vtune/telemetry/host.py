"""One look at the trial's processes and the machine around them, from /proc."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from vtune.domain.events import TelemetrySample
from vtune.telemetry.cgroup import MemoryGroups
from vtune.telemetry.machine_load import MachineLoad
from vtune.telemetry.memory import MachineMemory, TreeMemory, shared_memory
from vtune.telemetry.proc_files import ProcFiles
from vtune.telemetry.proc_text import PROC
from vtune.telemetry.processes import Processes


def available_ram_bytes(proc: Path = PROC) -> int | None:
    """Of the machine, or of the group that leaves least."""
    return MachineMemory(ProcFiles(proc), MemoryGroups(proc)).look(0.0)[0]


class HostSampler:
    """Reads the processes that `pids` names at each sample; this process and `own_pids` are vtune itself."""

    def __init__(self, pids: Callable[[], Sequence[int]], own_pids: Sequence[int] = (), *, proc: Path = PROC) -> None:
        self._pids = pids
        self._own_pids = (os.getpid(), *own_pids)
        self._files = ProcFiles(proc)
        self._processes = Processes(self._files)
        self._tree_memory = TreeMemory(self._files)
        self._machine_memory = MachineMemory(self._files, MemoryGroups(proc))
        self._load = MachineLoad(self._files, proc)

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
        return TelemetrySample(
            t_s=now_s,
            processes=processes,
            ram_bytes=used,
            shm_used_bytes=shm_used,
            others_cores=self._load.others_cores(now_s, {**stats, **own}.values()),
            ram_available_bytes=available,
            page_cache_bytes=page_cache,
        )
