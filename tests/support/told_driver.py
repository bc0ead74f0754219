"""NVIDIA's driver with one device whose answers a test sets; tests/integration/telemetry has its library compiled."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from vtune.domain.machine import Gpu
from vtune.telemetry.nvml_device import Device, Unreadable

UUID = "GPU-1"
NOT_SUPPORTED = 3


class ToldDriver:
    def __init__(self, *, total_bytes: int) -> None:
        self.total_bytes, self.used_bytes, self.util_percent = total_bytes, 0, 0
        # By pid; None where it does not tell whose memory it is, and then it is not asked again.
        self.processes: dict[int, int] | None = None

    def devices(self) -> list[Device]:
        return [Device(self, UUID, Gpu(index=0, uuid=UUID))]

    def find(self, uuid: str) -> Device | None:
        return None

    def __call__(self, name: str, *arguments: object) -> object:
        match name:
            case "nvmlDeviceGetMemoryInfo":
                return SimpleNamespace(total=self.total_bytes, used=self.used_bytes, reserved=0)
            case "nvmlDeviceGetUtilizationRates":
                return SimpleNamespace(gpu=self.util_percent)
            case "nvmlDeviceGetComputeRunningProcesses" if self.processes is not None:
                return [SimpleNamespace(pid=pid, usedGpuMemory=held) for pid, held in self.processes.items()]
        raise Unreadable("not supported by this device", code=NOT_SUPPORTED)


def told_driver(monkeypatch: pytest.MonkeyPatch, *, total_bytes: int) -> ToldDriver:
    driver = ToldDriver(total_bytes=total_bytes)
    monkeypatch.setattr("vtune.telemetry.nvml._opened", [driver])
    return driver
