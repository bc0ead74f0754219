"""The machine as a trial finds it: not what is built in, but what this process may use."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from vtune.domain.machine import Machine
from vtune.telemetry.cgroup import PROC, MemoryGroups, cpu_quota_cores
from vtune.telemetry.host import SHM, meminfo_bytes
from vtune.telemetry.nvml import NO_DRIVER, devices


def this_machine(proc: Path = PROC) -> Machine:
    gpus = devices()
    return Machine(
        host=platform.node(),
        kernel=platform.release(),
        cpu_model=_cpu_model(proc),
        cores=_cores(proc),
        ram_bytes=_ram_bytes(proc),
        shm_bytes=_shm_bytes(),
        gpus=gpus.names,
        gpu_driver=gpus.driver,
        gpus_unread_because=None if gpus.why_none == NO_DRIVER else gpus.why_none,
    )


def _cores(proc: Path) -> float:
    try:
        allowed = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not Linux
        allowed = os.cpu_count() or 1
    quota = cpu_quota_cores(proc)
    return float(allowed) if quota is None else min(float(allowed), quota)


def _ram_bytes(proc: Path) -> int | None:
    try:
        built_in = meminfo_bytes((proc / "meminfo").read_bytes(), b"MemTotal")
    except OSError:
        built_in = None
    return min((b for b in (built_in, MemoryGroups(proc).limit_bytes()) if b is not None), default=None)


def _cpu_model(proc: Path) -> str | None:
    try:
        text = (proc / "cpuinfo").read_text(errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        key, _, value = line.partition(":")
        # ARM has no such line on most machines; POWER calls it "cpu".
        if key.strip() in ("model name", "cpu"):
            return " ".join(value.split()) or None
    return None


def _shm_bytes() -> int | None:
    try:
        status = os.statvfs(SHM)
    except OSError:
        return None
    return status.f_blocks * status.f_frsize
