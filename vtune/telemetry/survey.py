"""What this machine has for a training, and what cannot be enforced or measured on it. Reads; changes nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from vtune.telemetry import cannot
from vtune.telemetry.cannot import Cannot
from vtune.telemetry.cgroup import MemoryGroups
from vtune.telemetry.cores import CPUS, Cores, cores
from vtune.telemetry.host import HostSampler
from vtune.telemetry.kernel import Kernel, kernel
from vtune.telemetry.machine import this_machine
from vtune.telemetry.memory import SHM, SharedMemory, built_in_bytes, shared_memory
from vtune.telemetry.nvml import Devices, ask_for_devices
from vtune.telemetry.proc_text import PROC, text_of
from vtune.telemetry.scratch import Scratch, scratch
from vtune.telemetry.training_python import TrainingPython, training_python

# The driver is asked while the disk is tried, which takes up to two seconds: a driver that hangs delays `vtune doctor`
# by half a second more.
DRIVER_TIMEOUT_S = 2.5
# The neighbours are looked at for at least this long.
LOOK_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    # What this process may use: the control group's limit where there is one.
    usable_bytes: int | None
    available_bytes: int | None
    group_limit_bytes: int | None
    machine_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    # Cores that everybody but this process kept busy while it looked.
    others_cores: float | None
    load_average: float | None
    # Processes that the driver names on a device: none of them is a trial now.
    gpu_processes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    cpu_model: str | None
    cores: Cores
    memory: Memory
    # None where there is no /dev/shm.
    shm: SharedMemory | None
    gpus: Devices
    neighbours: Neighbours
    scratch: Scratch
    kernel: Kernel
    python: TrainingPython
    cannot: tuple[Cannot, ...]


def survey(results: Path, python: str, *, proc: Path = PROC, cpus: Path = CPUS, shm: str = SHM) -> Survey:
    neighbours = HostSampler(lambda: (), proc=proc)
    begun = time.monotonic()
    neighbours.sample(begun, with_pss=False)
    devices_within = ask_for_devices()
    speed = scratch(results, proc)
    kernel_facts, python_facts = kernel(proc), training_python(python)
    gpus = devices_within(DRIVER_TIMEOUT_S)
    time.sleep(max(0.0, begun + LOOK_S - time.monotonic()))
    seen = neighbours.sample(time.monotonic(), with_pss=False)
    groups, machine = MemoryGroups(proc), this_machine(proc, gpus=gpus)
    memory = Memory(
        usable_bytes=machine.ram_bytes,
        available_bytes=seen.ram_available_bytes,
        group_limit_bytes=groups.limit_bytes(),
        machine_bytes=built_in_bytes(proc),
    )
    shared = shared_memory(shm)
    return Survey(
        cpu_model=machine.cpu_model,
        cores=cores(proc, cpus),
        memory=memory,
        shm=shared,
        gpus=gpus,
        neighbours=Neighbours(
            others_cores=seen.others_cores, load_average=_load_average(proc), gpu_processes=_gpu_processes(gpus)
        ),
        scratch=speed,
        kernel=kernel_facts,
        python=python_facts,
        cannot=(
            *cannot.without_a_trial(proc, results, python_facts),
            *cannot.of_limits(kernel_facts, shared),
            *cannot.of_kernel(kernel_facts),
            *cannot.of_gpus(gpus, python_facts),
            *cannot.of_storage(speed),
        ),
    )


def _gpu_processes(gpus: Devices) -> int | None:
    lists = [one.processes for one in gpus.devices if one.processes is not None]
    return len({process.pid for processes in lists for process in processes}) if lists else None


def _load_average(proc: Path) -> float | None:
    try:
        return float(text_of(proc / "loadavg").split()[0])
    except (ValueError, IndexError):
        return None
