"""One look after the other at a running training, and what they come to."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from vtune.analysis.watching.picture import Known, picture_of
from vtune.domain.events import GpuSample
from vtune.domain.experiment import Limit, Price
from vtune.domain.watching import Look, Watched
from vtune.execution.watch_log import WatchedLog
from vtune.execution.watch_tree import WatchedTree
from vtune.telemetry.cgroup import MemoryGroups
from vtune.telemetry.cores import cores
from vtune.telemetry.gpus import GpuSampler
from vtune.telemetry.memory import built_in_bytes, shared_memory
from vtune.telemetry.proc_text import PROC

LOOK_EVERY_S = 0.5
# Waking a driver may take longer; what it tells comes later then.
_FIRST_LOOK_AT_GPUS_S = 1.0
# For growth: one reading in five seconds over twenty minutes; all of them for the last half minute.
_ALL_S, _THINNED_S, _KEPT = 30.0, 5.0, 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    vram: Limit | None = None
    ram: Limit | None = None
    price: Price | None = None
    epochs: int | None = None


class Watching:
    def __init__(self, pid: int, asked: Asked) -> None:
        self._asked = asked
        self._tree, self._log = WatchedTree(pid), WatchedLog()
        self._gpus = GpuSampler(interval_s=LOOK_EVERY_S)
        self._recent: deque[Look] = deque(maxlen=round(_ALL_S / LOOK_EVERY_S))
        self._thinned: deque[Look] = deque(maxlen=_KEPT)
        self._newest_gpu: dict[str, GpuSample] = {}
        self._begun_s = time.monotonic()
        groups, shm = MemoryGroups(PROC), shared_memory()
        limits = [limit for limit in (built_in_bytes(PROC), groups.limit_bytes()) if limit is not None]
        self._machine_ram = min(limits, default=None)
        self._shm_bytes = None if shm is None else shm.size_bytes
        self._cores = cores().usable
        self._ended = False

    def __enter__(self) -> Self:
        self._gpus.start(_FIRST_LOOK_AT_GPUS_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gpus.close()
        self._log.close()

    @property
    def lives(self) -> bool:
        return not self._ended

    def look(self) -> None:
        if not self._tree.lives:
            self._ended = True
            self._log.read(time.monotonic())
            return
        now_s = time.monotonic()
        look = self._tree.look(now_s, log_lines=self._log.read(now_s))
        self._log.follow(self._tree.trainings)
        gpus = self._gpus.take([process.pid for process in look.processes])
        self._newest_gpu |= {sample.uuid: _over(self._newest_gpu.get(sample.uuid), sample) for sample in gpus}
        listed = self._gpus.gpus
        # In a container the driver names processes by other numbers: of a single device there is no doubt.
        if self._tree.on_gpu and len(listed) == 1:
            self._gpus.follow([listed[0].uuid])
        look = replace(look, gpus=gpus)
        self._recent.append(look)
        if look.ram_bytes is not None or not self._thinned or now_s - self._thinned[-1].t_s >= _THINNED_S:
            self._thinned.append(look)

    def picture(self) -> Watched:
        asked, tree = self._asked, self._tree
        known = Known(
            pid=tree.root,
            command=" ".join(tree.command) or "unknown",
            ran_s=tree.ran_s,
            seen_s=time.monotonic() - self._begun_s,
            ended=self._ended,
            parts=tree.parts,
            on_gpu=tree.on_gpu,
            gpus=self._gpus.gpus,
            newest_gpu=self._newest_gpu,
            gpu_unread_because=self._gpus.why_none,
            vram=asked.vram,
            ram_limit_bytes=asked.ram.resolve(self._machine_ram) if asked.ram is not None else self._machine_ram,
            shm_bytes=self._shm_bytes,
            cores=self._cores,
            marks=self._log.marks,
            no_log_because=self._log.why_none,
            price=asked.price,
            epochs=asked.epochs,
            missing=tuple(why for why in (tree.refused(),) if why is not None) if not self._ended else (),
        )
        return picture_of(tuple(self._recent), tuple(self._thinned), known)


def _over(before: GpuSample | None, now: GpuSample) -> GpuSample:
    """What is asked more rarely stays as it was told last."""
    if before is None:
        return now
    kept = {
        name: getattr(before, name)
        for name in ("util_percent", "others_bytes", "own_bytes", "used_bytes")
        if getattr(now, name) is None
    }
    return replace(now, **kept)
