"""One look after the other at a running training, and what they come to."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from vtune.analysis.watching.picture import GROWTH_OVER_S, Known, picture_of
from vtune.domain.events import GpuSample
from vtune.domain.experiment import Limit, Price
from vtune.domain.watching import Look, Watched
from vtune.execution.watch_launch import WatchedLaunch, watched_launch
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
# All looks of the last half minute; for growth one in five seconds.
_ALL_S, _THINNED_S = 30.0, 5.0


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
        self._launch: WatchedLaunch | None = None
        self._asked_for_launch: set[int] = set()
        self._gpus = GpuSampler(interval_s=LOOK_EVERY_S)
        self._recent: deque[Look] = deque(maxlen=round(_ALL_S / LOOK_EVERY_S))
        self._thinned: deque[Look] = deque(maxlen=round(GROWTH_OVER_S / _THINNED_S))
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
            if self._launch is not None:
                self._launch.look_now(time.monotonic())
            return
        now_s = time.monotonic()
        look = self._tree.look(now_s, log_lines=self._log.read(now_s))
        self._log.follow(self._tree.trainings)
        self._look_at_launch(now_s)
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

    def _look_at_launch(self, now_s: float) -> None:
        new = {self._tree.root, *self._tree.trainings} - self._asked_for_launch
        if self._launch is None and new:
            self._asked_for_launch |= new
            self._launch = watched_launch(sorted(new))
        if self._launch is not None:
            self._launch.look(now_s)

    def picture(self) -> Watched:
        asked, tree, launch = self._asked, self._tree, self._launch
        ram_limit = asked.ram.resolve(self._machine_ram) if asked.ram is not None else None
        # The one that ends it, whatever the study says by now.
        enforced = None if launch is None else launch.ram_limit_bytes
        limits = [limit for limit in (ram_limit, enforced) if limit is not None]
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
            ram_limit_bytes=min(limits, default=self._machine_ram),
            shm_bytes=self._shm_bytes,
            cores=self._cores,
            marks=self._log.marks,
            no_log_because=self._log.why_none,
            price=asked.price,
            epochs=asked.epochs,
            launch=launch.seen() if launch is not None else None,
            wait_share=launch.wait_share(time.monotonic()) if launch is not None else None,
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
