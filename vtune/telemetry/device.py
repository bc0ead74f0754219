"""One device as NVIDIA's driver tells it, question by question."""

from __future__ import annotations

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
SENT, RECEIVED = 0, 1

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

    def memory(self) -> DeviceMemory:
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
            by_pid[one.pid] = max((b for b in (one.usedGpuMemory, by_pid.get(one.pid)) if b is not None), default=None)
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
        return {int(one.pid): (int(one.timeStamp), int(one.smUtil)) for one in told if one.timeStamp > since_us}

    def utilization_samples(self, since_us: int) -> list[tuple[int, float]]:
        """(time in µs, percent) of the driver's own buffer, the oldest first; only differences of the times count."""
        try:
            kind, told = self._ask("nvmlDeviceGetSamples", UTILIZATION_SAMPLES, since_us)
        except Unreadable as error:
            if error.code == NOT_FOUND:
                return []
            raise
        value = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal"}.get(kind, "uiVal")
        found = [(int(one.timeStamp), float(getattr(one.sampleValue, value))) for one in told]
        return sorted(one for one in found if one[0] > since_us)

    def utilization_now(self) -> float:
        """Over the last sixth of a second to a second, by the device's make."""
        return float(self._ask("nvmlDeviceGetUtilizationRates").gpu)

    def power_w(self) -> float:
        return float(self._ask("nvmlDeviceGetPowerUsage")) / 1e3

    def energy_j(self) -> float:
        return float(self._ask("nvmlDeviceGetTotalEnergyConsumption")) / 1e3

    def sm_clock_mhz(self) -> float:
        return float(self._ask("nvmlDeviceGetClockInfo", SM_CLOCK))

    def temperature_c(self) -> float:
        try:
            return float(self._ask("nvmlDeviceGetTemperature", ON_THE_CHIP))
        except Unreadable as error:
            if error.code != TOO_OLD:  # here it may as well be too new: the call has a successor
                raise
            return float(self._ask("nvmlDeviceGetTemperatureV", ON_THE_CHIP))

    def throttled_by(self) -> tuple[str, ...]:
        try:
            mask = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        except Unreadable as error:
            if error.code != TOO_OLD:
                raise
            mask = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        return tuple(name for bit, name in THROTTLES.items() if mask & bit)

    def pcie_bytes_per_s(self) -> tuple[float, float]:
        """To the device and from it. Blocks for twice 20 ms, the time over which the driver counts."""
        # The driver speaks for the device: what it receives goes to it.
        to_device = self._ask("nvmlDeviceGetPcieThroughput", RECEIVED)
        from_device = self._ask("nvmlDeviceGetPcieThroughput", SENT)
        return to_device * 1e3, from_device * 1e3

    def _ask(self, name: str, *arguments: object) -> Any:
        if self.handle is None:
            raise Unreadable(self.gpu.unknown.get("device", "the driver gives no access to it"), code=15)
        return self.call(name, self.handle, *arguments)
