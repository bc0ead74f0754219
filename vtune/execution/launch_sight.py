"""What the guard of a full run sees of it: counters, the machine, memory; kept small, for runs of days."""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from io import RawIOBase

from vtune.analysis.guard.memory import Breach, Reading, Suspicion, predicted, thinned
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
        self._started_s, self._due_s, self._pss_due_s, self._line_due_s = started_s, started_s, started_s, started_s
        self._folder, self._trial, self._devices, self._file = folder, trial, devices, file
        self._log = StepLog(folder)
        self._host = HostSampler(lambda: list(trial.pids()), trial.own_pids)
        self._readings: dict[str, list[Reading]] = {"ram": [], "shm": [], "vram": []}
        self._apart_s = dict.fromkeys(self._readings, LOOK_S)
        self._suspicions = {name: Suspicion() for name in self._readings}
        # Each page counted once, and what is cheap to know at the same moment.
        self._used: tuple[int, int] | None = None

    def look(self, now_s: float) -> bool:
        """False where it is not time yet."""
        if now_s < self._due_s:
            return False
        self._due_s = now_s + LOOK_S
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
            found = predicted(
                what,
                self._readings[what],
                used_bytes=used[what],
                limit_bytes=most[what],
                steps_at_end=limits.steps_at_end,
                epoch_steps=limits.epoch_steps,
            )
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
            readings = self._readings[what]
            if now is None or (readings and sample.t_s < readings[-1].t_s + self._apart_s[what]):
                continue
            readings.append(Reading(t_s=sample.t_s, step=self.progress.steps, bytes=now))
            kept = thinned(readings)
            if len(kept) < len(readings):
                self._readings[what], self._apart_s[what] = kept, 2 * self._apart_s[what]

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
