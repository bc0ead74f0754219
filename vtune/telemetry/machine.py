"""The machine as a trial finds it: not what is built in, but what this process may use."""

from __future__ import annotations

import platform
from pathlib import Path

from vtune.domain.machine import Machine
from vtune.telemetry.cgroup import MemoryGroups
from vtune.telemetry.cores import cores
from vtune.telemetry.memory import built_in_bytes, shared_memory
from vtune.telemetry.nvml import NO_DRIVER, Devices, devices
from vtune.telemetry.proc_text import PROC, text_of


def this_machine(proc: Path = PROC, *, gpus: Devices | None = None, declared_cores: float | None = None) -> Machine:
    """`gpus`: what the driver has told already; without it the driver is asked. `declared_cores`: what an experiment
    says that its machine has."""
    gpus = devices() if gpus is None else gpus
    shm = shared_memory()
    return Machine(
        host=platform.node(),
        kernel=platform.release(),
        cpu_model=_cpu_model(proc),
        cores=cores(proc).usable,
        declared_cores=declared_cores,
        ram_bytes=_ram_bytes(proc),
        shm_bytes=shm.size_bytes if shm else None,
        gpus=gpus.names,
        gpu_driver=gpus.driver,
        gpus_unread_because=None if gpus.why_none == NO_DRIVER else gpus.why_none,
    )


def _ram_bytes(proc: Path) -> int | None:
    limits = (built_in_bytes(proc), MemoryGroups(proc).limit_bytes())
    return min((limit for limit in limits if limit is not None), default=None)


def _cpu_model(proc: Path) -> str | None:
    for line in text_of(proc / "cpuinfo").splitlines():
        key, _, value = line.partition(":")
        # ARM has no such line on most machines; POWER calls it "cpu".
        if key.strip() in ("model name", "cpu"):
            return " ".join(value.split()) or None
    return None
