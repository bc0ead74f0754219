"""What a study was measured on; two machines never share a journal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    host: str
    kernel: str
    cpu_model: str | None
    # Cores this process may really use: affinity and cgroup quota together.
    cores: float
    ram_bytes: int | None
    shm_bytes: int | None
    gpus: tuple[str, ...] = ()
