"""The machine while a trial runs: its processes and its devices, on a fixed grid, into the trial's telemetry."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterable
from dataclasses import replace
from io import RawIOBase

from vtune.domain.events import Fact, TelemetrySample
from vtune.domain.machine import Gpu
from vtune.execution.running import RunningTrial
from vtune.files import DISK_REFUSES
from vtune.journal.files import dump_json, to_json
from vtune.journal.paths import TrialPaths
from vtune.telemetry.gpus import GpuSampler
from vtune.telemetry.host import HostSampler

# The second on full cores, after so many looks at a training that steps: a leak in a window of seconds shows in those.
SAMPLE_S, SELDOM_SAMPLE_S = 0.2, 0.4
LOOKS_AT_FIRST = 24
# Proportional set sizes cost milliseconds a process and hold the target's memory lock meanwhile. The sampler reads them
# in between as well, when memory jumps: a spike of a second must not be missed.
PSS_S = 5.0


class Sampling:
    def __init__(
        self, folder: TrialPaths, trial: RunningTrial, devices: GpuSampler, file: RawIOBase, started_s: float
    ) -> None:
        self.samples: list[TelemetrySample] = []
        self.gpus: tuple[Gpu, ...] = ()
        self.disk_was_full = False
        self._folder, self._trial, self._devices, self._file = folder, trial, devices, file
        self._host = HostSampler(self._pids, trial.own_pids, names_others=True)
        self._worker_pids: frozenset[int] = frozenset()
        self._enough_looks = LOOKS_AT_FIRST
        self._due_s = started_s
        self._pss_due_s = started_s + 1.0

    def look(self, now_s: float) -> None:
        if now_s < self._due_s:
            return
        self.sample(now_s, with_pss=now_s >= self._pss_due_s)
        every_s = SELDOM_SAMPLE_S if self.may_rest() else SAMPLE_S
        self._due_s += every_s * (1 + (now_s - self._due_s) // every_s)

    def sample(self, now_s: float, with_pss: bool, *, needed: bool = False) -> TelemetrySample:
        taken = self._host.sample(now_s, with_pss, needed=needed)
        taken = replace(taken, gpus=self._devices.take(process.pid for process in taken.processes))
        if with_pss or taken.ram_bytes is not None:
            self._pss_due_s = now_s + PSS_S
        self.samples.append(taken)
        # A full disk costs this sample's line, not the trial.
        try:
            self._file.write(json.dumps(to_json(taken)).encode() + b"\n")
            # A short line may still find room in a block that is there.
            self.disk_was_full |= os.statvfs(self._folder.root).f_bavail == 0
        except OSError as error:
            self.disk_was_full |= error.errno in DISK_REFUSES
        self._name_gpus()
        return taken

    def training_begins(self, now_s: float) -> None:
        """The proportional set sizes are read a second later."""
        self._pss_due_s = min(self._pss_due_s, now_s + 1.0)
        self._enough_looks = len(self.samples) + LOOKS_AT_FIRST

    def meet_workers(self, pids: Collection[int], now_s: float) -> None:
        """Loader workers of a short epoch are gone before the next look at the tree: they are read as they come."""
        if not self._worker_pids.issuperset(pids):
            self._worker_pids = frozenset(pids)
            self.sample(now_s, with_pss=False)

    def meet_devices(self, told: Iterable[Fact]) -> None:
        self._devices.follow(uuid for fact in told if isinstance(uuid := fact.data.get("uuid"), str))

    def cores_are_full(self) -> bool:
        return self._host.cores_are_full

    def may_rest(self) -> bool:
        """Whatever is read now is taken from the training, and the first looks are there."""
        return self.cores_are_full() and len(self.samples) >= self._enough_looks

    @property
    def ram_bytes(self) -> int | None:
        return next((s.ram_bytes for s in reversed(self.samples) if s.ram_bytes is not None), None)

    def _pids(self) -> list[int]:
        """Those that ended are no trouble: the sampler passes over them."""
        return [*{*self._trial.pids(), *self._worker_pids}]

    def _name_gpus(self) -> None:
        gpus = self._devices.gpus
        if gpus != self.gpus:
            self.gpus = gpus
            with contextlib.suppress(OSError):
                dump_json(self._folder.gpus, gpus)
