"""What the guard of a full run sees of it: counters, the machine, memory; kept small, for runs of days."""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from io import RawIOBase

from vtune.analysis.guard.memory import Breach, Reading, Readings, Suspicion, is_hurried, predicted
from vtune.analysis.guard.pace import WARM_UP_STEPS, Pace
from vtune.analysis.guard.progress import Checkpoints, Progress, progress_of
from vtune.domain.events import Fact, TelemetrySample
from vtune.execution.running import RunningTrial
from vtune.journal.counts import read_counts
from vtune.journal.files import to_json
from vtune.journal.paths import TrialPaths
from vtune.journal.step_log import StepLog
from vtune.telemetry.gpus import GpuSampler
from vtune.telemetry.host import HostSampler

LOOK_S, PSS_S = 1.0, 10.0
# Of memory that fills fast; all else is looked at each second.
HURRIED_LOOK_S = 0.25
# In memory: enough to tell whether anybody has moved since a hang may have begun.
KEPT_S = 3600.0
# On disk: every few seconds at first, then ever more seldom. Some 2000 lines in ten days.
TELEMETRY_S, TELEMETRY_SHARE = 2.0, 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimits:
    ram_bytes: int | None = None
    shm_bytes: int | None = None
    # Of each device by uuid.
    vram_share: float | None = None
    vram_bytes: int | None = None
    steps_at_end: int | None = None
    epoch_steps: int | None = None
    # How long before a breach it has to be asked to save.
    save_s: float = 160.0


class LaunchSight:
    def __init__(
        self,
        folder: TrialPaths,
        trial: RunningTrial,
        devices: GpuSampler,
        file: RawIOBase,
        started_s: float,
        *,
        restarts_in_rate: bool = False,
    ) -> None:
        self._restarts_in_rate = restarts_in_rate
        self.pace = Pace()
        self.progress = Progress(t_s=started_s)
        self.checkpoints = Checkpoints()
        self.samples: deque[TelemetrySample] = deque(maxlen=int(KEPT_S / LOOK_S))
        self.facts: list[Fact] = []
        self.ram_peak_bytes: int | None = None
        self.shm_peak_bytes: int | None = None
        self.vram_peak_bytes: int | None = None
        self.vram_bytes: int | None = None
        self._started_s = self._due_s = self._counters_due_s = self._pss_due_s = self._line_due_s = started_s
        self._folder, self._trial, self._devices, self._file = folder, trial, devices, file
        self._log = StepLog(folder)
        self._host = HostSampler(lambda: list(trial.pids()), trial.own_pids)
        self._readings = {"ram": Readings(), "shm": Readings(), "vram": Readings()}
        self._suspicions = {name: Suspicion() for name in self._readings}
        # Each page counted once, and what is cheap to know at the same moment.
        self._used: tuple[int, int] | None = None

    def look(self, now_s: float) -> bool:
        """False where it is not time yet."""
        if now_s < self._due_s:
            return False
        self._due_s = now_s + LOOK_S
        if now_s >= self._counters_due_s:
            self._counters_due_s = now_s + LOOK_S
            self.look_at_counters(now_s)
        sample = self._host.sample(now_s, now_s >= self._pss_due_s)
        if sample.ram_bytes is not None:
            self._pss_due_s = now_s + PSS_S
        sample = replace(sample, gpus=self._devices.take(process.pid for process in sample.processes))
        self.samples.append(sample)
        self._remember(sample)
        self._write(sample)
        return True

    def look_at_counters(self, now_s: float) -> None:
        self._log.refresh()
        self.facts = self._log.facts
        self._devices.follow(
            uuid for fact in self._log.facts_named("device") if isinstance(uuid := fact.data.get("uuid"), str)
        )
        counts = read_counts(self._folder)
        self.progress = progress_of(counts, now_s, restarts_in_rate=self._restarts_in_rate)
        self.checkpoints.look(self.progress)
        self.pace.look(self.progress)

    @property
    def ram_bytes(self) -> int | None:
        """Each page once: as of the last dear reading, with what came since."""
        if self._used is None or not self.samples:
            return None
        return max(0, self._used[0] + _anonymous(self.samples[-1]) - self._used[1])

    def breach(self, limits: MemoryLimits, now_s: float) -> Breach | None:
        """The first that is sure, and was sure some minutes ago as well, or will not wait."""
        used = {"ram": self.ram_bytes, "shm": None, "vram": None}
        most = {"ram": limits.ram_bytes, "shm": limits.shm_bytes, "vram": self._vram_limit(limits)}
        for what in ("ram", "shm", "vram"):
            if what == "ram" and used[what] is None:
                continue
            readings, limit = self._readings[what].all, most[what]
            found = predicted(
                what,
                readings,
                used_bytes=used[what],
                limit_bytes=limit,
                steps_at_end=limits.steps_at_end,
                epoch_steps=limits.epoch_steps,
                save_s=limits.save_s,
            )
            if limit is not None and readings and is_hurried(readings, limit - (used[what] or readings[-1].bytes)):
                self._due_s = min(self._due_s, now_s + HURRIED_LOOK_S)
            if self._suspicions[what].confirmed(found, now_s):
                return found
        return None

    def over_vram(self, limits: MemoryLimits) -> tuple[int, int] | None:
        """What is used and what the user allows, where it is more."""
        if limits.vram_bytes is None and limits.vram_share is None:
            return None
        used, most = self.vram_bytes, self._vram_limit(limits)
        return (used, most) if used is not None and most is not None and used > most else None

    def pids_seen(self) -> set[int]:
        return {process.pid for sample in self.samples for process in sample.processes} | {f.pid for f in self.facts}

    def since(self, t_s: float) -> list[TelemetrySample]:
        return [sample for sample in self.samples if sample.t_s >= t_s]

    def _vram_limit(self, limits: MemoryLimits) -> int | None:
        totals = [gpu.memory_bytes for gpu in self._devices.gpus if gpu.memory_bytes is not None]
        if not totals:
            return limits.vram_bytes
        if limits.vram_bytes is not None:
            return min(limits.vram_bytes, *totals)
        return int(min(totals) * (limits.vram_share or 1.0))

    def _remember(self, sample: TelemetrySample) -> None:
        if sample.ram_bytes is not None:
            self._used = sample.ram_bytes, _anonymous(sample)
        vram = max((gpu.own_bytes for gpu in sample.gpus if gpu.own_bytes is not None), default=None)
        if vram is None:
            # A driver that does not tell whose memory it is: what the training's own allocator has reserved.
            told = (fact.data.get("reserved") for fact in self._log.facts_named("memory")[-16:])
            vram = max((held for held in told if isinstance(held, int)), default=None)
        self.vram_bytes = vram
        self.ram_peak_bytes = _larger(self.ram_peak_bytes, self.ram_bytes)
        self.shm_peak_bytes = _larger(self.shm_peak_bytes, sample.shm_used_bytes)
        self.vram_peak_bytes = _larger(self.vram_peak_bytes, vram)
        if self.progress.steps < WARM_UP_STEPS:
            return
        for what, now in (("ram", _anonymous(sample)), ("shm", sample.shm_used_bytes), ("vram", vram)):
            if now is not None:
                self._readings[what].add(Reading(t_s=sample.t_s, step=self.progress.steps, bytes=now))

    def _write(self, sample: TelemetrySample) -> None:
        if sample.t_s < self._line_due_s:
            return
        self._line_due_s = sample.t_s + TELEMETRY_S + TELEMETRY_SHARE * (sample.t_s - self._started_s)
        with contextlib.suppress(OSError):
            self._file.write(json.dumps(to_json(sample)).encode() + b"\n")


def _anonymous(sample: TelemetrySample) -> int:
    return sum(process.anon_bytes or 0 for process in sample.processes)


def _larger(one: int | None, other: int | None) -> int | None:
    known: Iterable[int] = [number for number in (one, other) if number is not None]
    return max(known, default=None)
