"""One device as NVIDIA's driver tells it, question by question."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from vtune.domain.machine import Gpu

NOT_FOUND, TOO_OLD, VERSION_MISMATCH = 6, 13, 25
# Asking again would give the same answer.
_LASTING = frozenset({2, 3, 4, TOO_OLD, VERSION_MISMATCH, 26})
_LOST = frozenset({15, 16})

# The driver's numbers for what is asked.
MEMORY_V2 = 0x2000028
UTILIZATION_SAMPLES = 1
SM_CLOCK = 1
ON_THE_CHIP = 0
RECEIVED = 1
# No answer of the driver: what it told cannot be.
IMPOSSIBLE = -1

# Beyond any device there is. A number that is not kept is told as the largest that fits the field, and a negative one
# comes out close to it.
MOST_W, MOST_C, MOST_MHZ, MOST_PCIE_BYTES_PER_S, MOST_J = 1e4, 200.0, 1e4, 1e12, 2**63 / 1e3

# Bits of the driver's mask that slow the clocks; an idle device (1) is not slowed.
THROTTLES = {
    0x2: "clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x100: "display_clocks",
    0x200: "board_limit",
    0x400: "reliability",
}


class Unreadable(Exception):
    """One metric of one device cannot be read; the text says why."""

    def __init__(self, reason: str, *, code: int | None) -> None:
        super().__init__(reason)
        self.code = code
        self.lasting = code is None or code in _LASTING
        self.lost = code in _LOST


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProcess:
    """As the driver names it: in a container its pids may be the host's."""

    pid: int
    # None where the driver does not tell.
    used_bytes: int | None

    @property
    def is_here(self) -> bool:
        """A process of that number exists on this side."""
        return os.path.exists(f"/proc/{self.pid}")


HOSTS_PIDS = "the driver names processes by pids of the host, unknown in this container"


def pids_are_the_hosts(processes: Sequence[DeviceProcess]) -> bool:
    return bool(processes) and not any(one.is_here for one in processes)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    total_bytes: int
    used_bytes: int
    # What the driver keeps for itself; None where it is counted as used.
    reserved_bytes: int | None


@dataclass(slots=True)
class Device:
    """Each method asks the driver once and raises Unreadable when it does not tell."""

    call: Callable[..., Any]
    handle: Any
    gpu: Gpu
    _memory_version: int | None = field(default=2, init=False)
    _total_bytes: int | None = field(default=None, init=False)

    def describe(self, memory: DeviceMemory | None, unknown: dict[str, str]) -> Gpu:
        return Gpu(
            index=self.gpu.index,
            uuid=self.gpu.uuid,
            name=self.gpu.name,
            memory_bytes=memory.total_bytes if memory else None,
            driver=self.gpu.driver,
            mig=self.gpu.mig,
            unknown=unknown,
        )

    def reason(self, error: Unreadable) -> str:
        """What is said of a metric that cannot be read on this device."""
        of_slice = ": the driver does not count it for a slice of a divided device (MIG)"
        return f"{error}{of_slice if self.gpu.mig and error.lasting else ''}"

    def memory(self) -> DeviceMemory:
        told = self._memory()
        if not 0 <= told.used_bytes <= told.total_bytes:
            raise _impossible(f"{told.used_bytes} bytes used of {told.total_bytes}")
        self._total_bytes = told.total_bytes
        return told

    def _memory(self) -> DeviceMemory:
        if self._memory_version == 2:
            try:
                told = self._ask("nvmlDeviceGetMemoryInfo", MEMORY_V2)
                return DeviceMemory(
                    total_bytes=int(told.total), used_bytes=int(told.used), reserved_bytes=int(told.reserved)
                )
            except Unreadable as error:
                if error.code not in (TOO_OLD, VERSION_MISMATCH):
                    raise
                self._memory_version = 1
        told = self._ask("nvmlDeviceGetMemoryInfo")
        return DeviceMemory(total_bytes=int(told.total), used_bytes=int(told.used), reserved_bytes=None)

    def processes(self) -> tuple[DeviceProcess, ...]:
        """Those that compute and those that draw; one that does both is listed twice by the driver."""
        listed = [*self._listed("Compute")]
        try:
            listed += self._listed("Graphics")
        except Unreadable as error:
            if error.lost:
                raise
        by_pid: dict[int, int | None] = {}
        for one in listed:
            used = one.usedGpuMemory
            if used is not None and self._total_bytes is not None and used > self._total_bytes:
                raise _impossible(f"{used} bytes for a process on a device of {self._total_bytes}")
            by_pid[one.pid] = max((b for b in (used, by_pid.get(one.pid)) if b is not None), default=None)
        return tuple(DeviceProcess(pid=pid, used_bytes=used) for pid, used in by_pid.items())

    def _listed(self, kind: str) -> Sequence[Any]:
        name = f"nvmlDeviceGet{kind}RunningProcesses"
        try:
            found: Sequence[Any] = self._ask(name)
        except Unreadable as error:
            if error.code != TOO_OLD:
                raise
            found = self._ask(name + "_v2")
        return found

    def busy_percent_by_pid(self, since_us: int) -> dict[int, tuple[int, int]]:
        """(time in µs, percent of the multiprocessors' time) by process, after `since_us`; empty when nothing ran."""
        try:
            told = self._ask("nvmlDeviceGetProcessUtilization", since_us)
        except Unreadable as error:
            if error.code in (NOT_FOUND, 0):
                return {}
            raise
        new = [one for one in told if one.timeStamp > since_us]
        return {int(one.pid): (int(one.timeStamp), int(_percent(one.smUtil))) for one in new}

    def utilization_samples(self, since_us: int) -> list[tuple[int, float]]:
        """(time in µs, percent) of the driver's own buffer, the oldest first; only differences of the times count."""
        try:
            kind, told = self._ask("nvmlDeviceGetSamples", UTILIZATION_SAMPLES, since_us)
        except Unreadable as error:
            if error.code == NOT_FOUND:
                return []
            raise
        value = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal"}.get(kind, "uiVal")
        new = [one for one in told if one.timeStamp > since_us]
        return sorted((int(one.timeStamp), _percent(getattr(one.sampleValue, value))) for one in new)

    def utilization_now(self) -> float:
        """Over the last sixth of a second to a second, by the device's make."""
        return _percent(self._ask("nvmlDeviceGetUtilizationRates").gpu)

    def power_w(self) -> float:
        return _possible(self._ask("nvmlDeviceGetPowerUsage") / 1e3, MOST_W, "W")

    def energy_j(self) -> float:
        return _possible(self._ask("nvmlDeviceGetTotalEnergyConsumption") / 1e3, MOST_J, "J")

    def sm_clock_mhz(self) -> float:
        return _possible(self._ask("nvmlDeviceGetClockInfo", SM_CLOCK), MOST_MHZ, "MHz")

    def temperature_c(self) -> float:
        try:
            told = self._ask("nvmlDeviceGetTemperature", ON_THE_CHIP)
        except Unreadable as error:
            if error.code != TOO_OLD:  # here it may as well be too new: the call has a successor
                raise
            told = self._ask("nvmlDeviceGetTemperatureV", ON_THE_CHIP)
        return _possible(told, MOST_C, "°C")

    def throttled_by(self) -> tuple[str, ...]:
        try:
            mask = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        except Unreadable as error:
            if error.code != TOO_OLD:
                raise
            mask = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        return tuple(name for bit, name in THROTTLES.items() if mask & bit)

    def pcie_to_device_bytes_per_s(self) -> float:
        """Blocks for 20 ms, the time over which the driver counts."""
        # The driver speaks for the device: what it receives goes to it.
        told = self._ask("nvmlDeviceGetPcieThroughput", RECEIVED)
        return _possible(told * 1e3, MOST_PCIE_BYTES_PER_S, "bytes a second")

    def _ask(self, name: str, *arguments: object) -> Any:
        if self.handle is None:
            raise Unreadable(self.gpu.unknown.get("device", "the driver gives no access to it"), code=15)
        return self.call(name, self.handle, *arguments)


def _percent(value: float) -> float:
    return _possible(value, 100.0, "%")


def _possible(value: float, most: float, unit: str) -> float:
    if not 0 <= value <= most:  # NaN as well
        raise _impossible(f"{value:.15g} {unit}")
    return float(value)


def _impossible(answer: str) -> Unreadable:
    return Unreadable(f"the driver answered {answer}", code=IMPOSSIBLE)
