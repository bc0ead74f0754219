"""One device, looked at again and again: what is asked at each look, what rarely, what never again."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from vtune.domain.events import GpuSample
from vtune.domain.machine import Gpu
from vtune.telemetry.nvml_device import (
    HOSTS_PIDS,
    Device,
    DeviceMemory,
    DeviceProcess,
    Unreadable,
    pids_are_the_hosts,
)  # fmt: skip

T = TypeVar("T")

# The driver's own buffer loses nothing meanwhile, and lists of processes are dear.
SLOW_S = 1.0
# Without the buffer: the driver averages over a sixth of a second to a second.
RATES_S = 0.5
# Looks come on a grid: one that is a little early is the right one, the next would be a whole interval late.
EARLY_S = 0.05
# A buffer that stands still for so long is not kept up by this driver.
BUFFER_STANDS_S = 3.0
# Between two of the driver's samples; a longer gap is a buffer that ran over, and says nothing of the time in it.
LONGEST_SAMPLE_US = 1_000_000
# A call that failed for a passing reason is tried again, but not five times a second.
RETRY_S = 5.0
# The training may be ending, or its newest process not be known yet: one look without it proves nothing.
LOOKS_WITHOUT_OWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """The trial's processes: those there are, and those there ever were."""

    now: Collection[int] = ()
    ever: Collection[int] = ()


class WatchedGpu:
    def __init__(self, device: Device) -> None:
        self.device = device
        # The training has told that it uses it; one of the trial's processes was seen on it.
        self.told = self.own_seen = False
        self.lost = False
        # Metrics that could not be read, and why.
        self.unknown: dict[str, str] = dict(device.gpu.unknown)
        self._memory: DeviceMemory | None = None
        self._pcie: float | None = None
        self._again_s: dict[str, float] = {}
        self._slow_due_s = self._util_due_s = 0.0
        self._buffer, self._buffer_read = True, False
        self._buffer_at_us, self._buffer_moved_s = 0, 0.0
        self._by_pid_at_us, self._by_pid_read = 0, False
        self._by_pid_told_us: dict[int, int] = {}
        # Processes that were on it before the trial.
        self._before: frozenset[int] | None = None
        self._looks_without_own = 0

    @property
    def is_followed(self) -> bool:
        return self.told or self.own_seen

    @property
    def gpu(self) -> Gpu:
        return self.device.describe(self._memory, dict(self.unknown))

    def look(self, now_s: float, ours: Ours) -> GpuSample | None:
        """None of a device that is lost: what it told before that is not worth a sample."""
        memory = self._ask("memory", self.device.memory, now_s)
        if memory is not None:
            self._memory = memory
            if memory.reserved_bytes is None:
                self.unknown.setdefault("reserved memory", "this driver counts what it keeps for itself as used")
        throttled = self._ask("throttling", self.device.throttled_by, now_s)
        energy = self._ask("energy", self.device.energy_j, now_s)
        power = self._ask("power", self.device.power_w, now_s)
        clock = self._ask("sm_clock", self.device.sm_clock_mhz, now_s)
        util = own = others = others_util = temperature = None
        if now_s >= self._util_due_s:
            self._util_due_s = now_s + (SLOW_S if self._buffer else RATES_S) - EARLY_S
            util = self._ask("utilization", lambda: self._utilization(now_s), now_s)
        if now_s >= self._slow_due_s:
            self._slow_due_s = now_s + SLOW_S - EARLY_S
            temperature = self._ask("temperature", self.device.temperature_c, now_s)
            listed = self._ask("processes", self.device.processes, now_s)
            if listed is not None:
                own, others, strangers = self._whose(listed, ours)
                others_util = self._ask("others", lambda: self._busy_percent(strangers), now_s)
        if self.lost:
            return None
        pcie, self._pcie = self._pcie, None
        return GpuSample(
            uuid=self.device.gpu.uuid,
            util_percent=util,
            used_bytes=memory.used_bytes if memory else None,
            own_bytes=own,
            others_bytes=others,
            others_util_percent=others_util,
            power_w=power,
            energy_j=energy,
            sm_clock_mhz=clock,
            temperature_c=temperature,
            throttled_by=throttled or (),
            pcie_to_device_bytes_per_s=pcie,
        )

    def look_at_pcie(self, now_s: float) -> None:
        """Blocks for 20 ms: from a thread of its own."""
        self._pcie = self._ask("pcie", self.device.pcie_to_device_bytes_per_s, now_s)

    def _ask(self, metric: str, read: Callable[[], T], now_s: float) -> T | None:
        if self.lost or now_s < self._again_s.get(metric, 0.0):
            return None
        try:
            return read()
        except Unreadable as error:
            if error.lost:
                self.lost = True
                self.unknown["device"] = str(error)
                return None
            self.unknown.setdefault(metric, self.device.reason(error))
            self._again_s[metric] = math.inf if error.lasting else now_s + RETRY_S
            return None

    def _utilization(self, now_s: float) -> float | None:
        if self._buffer:
            try:
                new = self.device.utilization_samples(self._buffer_at_us)
            except Unreadable as error:
                if error.lost:
                    raise
                self._buffer = False
            else:
                last_us = self._buffer_at_us
                if new:
                    self._buffer_at_us, self._buffer_moved_s = new[-1][0], now_s
                if not self._buffer_read:
                    # What lay in the buffer at the first look is older than the trial.
                    self._buffer_read, self._buffer_moved_s = True, now_s
                    return None
                if new:
                    return _mean_over_time(new, last_us)
                if now_s - self._buffer_moved_s < BUFFER_STANDS_S:
                    return None
        return self.device.utilization_now()

    def _whose(
        self, listed: tuple[DeviceProcess, ...], ours: Ours
    ) -> tuple[int | None, int | None, frozenset[int] | None]:
        """Bytes of the trial's processes and of others, and the others' pids; each None where nobody can tell."""
        if self._before is None:
            self._before = frozenset(one.pid for one in listed) - frozenset(ours.ever)
        own = [one for one in listed if one.pid in ours.ever]
        rest = [one for one in listed if one.pid not in ours.ever]
        if own:
            self.own_seen = True
        else:
            # A pid that does not exist here is a host's, seen from a container: it may be ours under another number,
            # unless it was there before us.
            rest = [one for one in rest if one.pid in self._before or one.is_here]
        self._say_why_not_own(own, listed, ours)
        if not own and not rest:
            return None, None, None
        return _sum(own) if own else None, _sum(rest), frozenset(one.pid for one in rest)

    def _say_why_not_own(self, own: list[DeviceProcess], listed: tuple[DeviceProcess, ...], ours: Ours) -> None:
        if any(one.used_bytes is None for one in own):
            self.unknown["own memory"] = "the driver lists the trial's processes, but not their memory"
        elif own:
            self.unknown.pop("own memory", None)
        elif self.told and ours.now and not self.own_seen:
            self._looks_without_own += 1
            if self._looks_without_own >= LOOKS_WITHOUT_OWN:
                self.unknown["own memory"] = _why_not_found(listed)

    def _busy_percent(self, strangers: frozenset[int] | None) -> float | None:
        if strangers is None:
            return None
        if not strangers:
            return 0.0
        told = self.device.busy_percent_by_pid(self._by_pid_at_us)
        if not told and self._clock_went_back():
            return None
        self._by_pid_at_us = max([self._by_pid_at_us, *(when for when, _ in told.values())])
        self._by_pid_told_us |= {pid: when for pid, (when, _) in told.items()}
        if not self._by_pid_read:
            self._by_pid_read = True  # older than the trial
            return None
        return float(sum(percent for pid, (_, percent) in told.items() if pid in strangers))

    def _clock_went_back(self) -> bool:
        """Nothing newer than the mark: nobody ran, or the driver's clock was set back and the mark lies ahead of it.
        Then what it told last has other times than we know of, and the mark goes back as well."""
        told = {pid: when for pid, (when, _) in self.device.busy_percent_by_pid(0).items()}
        unknown = [when for pid, when in told.items() if when != self._by_pid_told_us.get(pid)]
        if unknown:
            self._by_pid_at_us, self._by_pid_told_us = max(unknown), told
        return bool(unknown)


def _mean_over_time(samples: list[tuple[int, float]], since_us: int) -> float:
    total = weight = 0.0
    for when_us, percent in samples:
        lasted_us = min(when_us - since_us, LONGEST_SAMPLE_US)
        total, weight, since_us = total + percent * lasted_us, weight + lasted_us, when_us
    return total / weight


def _sum(processes: list[DeviceProcess]) -> int | None:
    known = [one.used_bytes for one in processes if one.used_bytes is not None]
    return sum(known) if len(known) == len(processes) else None


def _why_not_found(listed: tuple[DeviceProcess, ...]) -> str:
    if not listed:
        return "the driver lists no process on it (usual in a container)"
    if pids_are_the_hosts(listed):
        return HOSTS_PIDS
    return "none of the processes that the driver lists is of this trial"
