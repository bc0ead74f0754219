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


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeGpu:
    """As it is before anything of ours runs on it."""

    index: int
    uuid: str
    total_bytes: int | None = None
    used_bytes: int | None = None
    util_percent: float | None = None


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
    # Those of the machine that an experiment says it stands for (vtune.machine): they decide what is worth trying. How
    # full the cores are is told of those that are here.
    declared_cores: float | None = None
    ram_bytes: int | None
    shm_bytes: int | None
    # Names only: part of what tells two machines apart.
    gpus: tuple[str, ...] = ()
    gpu_driver: str | None = None
    # There is a driver, but it does not work or shows nothing; None without one.
    gpus_unread_because: str | None = None

    @property
    def cores_to_plan_for(self) -> float:
        return self.cores if self.declared_cores is None else self.declared_cores

    @property
    def cores_text(self) -> str:
        """`12 cores declared (2 here)`: what is only said is never shown as found."""
        if self.declared_cores is not None:
            return f"{_cores(self.declared_cores)} declared ({self.cores:g} here)"
        return _cores(self.cores)


def _cores(number: float) -> str:
    return f"{number:g} core{'' if number == 1 else 's'}"
