"""What a study was measured on; two machines never share a journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A device as its driver names it; the index is the driver's, never torch's."""

    index: int
    uuid: str
    name: str | None = None
    memory_bytes: int | None = None
    driver: str | None = None
    # A slice of a larger device: its utilization is not known to the driver.
    mig: bool = False
    # Metrics that could not be read, and why: each is told once.
    unknown: Mapping[str, str] = field(default_factory=dict)


def bare_uuid(text: str) -> str:
    """Without the driver's prefix, which torch leaves out: how a device told by one is found at the other."""
    return text.lower().removeprefix("gpu-").removeprefix("mig-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    host: str
    kernel: str
    cpu_model: str | None
    # Cores this process may really use: affinity and cgroup quota together.
    cores: float
    ram_bytes: int | None
    shm_bytes: int | None
    # Names only: part of what tells two machines apart.
    gpus: tuple[str, ...] = ()
    gpu_driver: str | None = None
    # There is a driver, but it does not work or shows nothing; None without one.
    gpus_unread_because: str | None = None
