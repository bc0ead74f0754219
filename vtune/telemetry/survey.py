"""What this machine has for a training, and what cannot be enforced or measured on it. Reads; changes nothing."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from vtune.telemetry.cgroup import PROC, MemoryGroups
from vtune.telemetry.cores import CPUS, Cores, cores
from vtune.telemetry.host import SHM, HostSampler, meminfo_bytes
from vtune.telemetry.kernel import Kernel, kernel
from vtune.telemetry.machine import this_machine
from vtune.telemetry.nvml import Devices, devices
from vtune.telemetry.scratch import Scratch, nearest_existing, scratch
from vtune.telemetry.training_python import TrainingPython, training_python

# The driver is asked in a thread of its own: the whole of `vtune doctor` takes less than three seconds.
DRIVER_TIMEOUT_S = 1.5
# The neighbours are looked at for at least this long.
LOOK_S = 0.5
# Docker's default for /dev/shm, in which no loader worker can pass a batch of volumes.
SMALL_SHM = 2**30
REMOTE = ("nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "9p", "virtiofs", "glusterfs", "beegfs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    # What this process may use: the control group's limit where there is one.
    usable_bytes: int | None
    available_bytes: int | None
    group_limit_bytes: int | None
    machine_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory:
    size_bytes: int | None
    free_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    # Cores that everybody but this process kept busy while it looked.
    others_cores: float | None
    load_average: float | None
    # Processes that the driver names on a device: none of them is a trial now.
    gpu_processes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cannot:
    """`blocks`: without it no trial runs here at all."""

    what: str
    because: str
    instead: str | None = None
    blocks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    cpu_model: str | None
    cores: Cores
    memory: Memory
    shm: SharedMemory
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
    asked: list[Devices] = []
    asking = threading.Thread(target=lambda: asked.append(devices(DRIVER_TIMEOUT_S)), daemon=True)
    asking.start()
    speed = scratch(results, proc)
    kernel_facts, python_facts = kernel(proc), training_python(python)
    asking.join(DRIVER_TIMEOUT_S + 0.5)
    gpus = asked[0] if asked else Devices(devices=(), driver=None, cuda=None, why_none="the driver does not answer")
    time.sleep(max(0.0, begun + LOOK_S - time.monotonic()))
    seen = neighbours.sample(time.monotonic(), with_pss=False)
    groups, machine = MemoryGroups(proc), this_machine(proc)
    memory = Memory(
        usable_bytes=machine.ram_bytes,
        available_bytes=seen.ram_available_bytes,
        group_limit_bytes=groups.limit_bytes(),
        machine_bytes=_machine_bytes(proc),
    )
    shared = _shared_memory(shm)
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
            *_without_a_trial(proc, results, python_facts),
            *_of_limits(kernel_facts, shared),
            *_of_kernel(kernel_facts),
            *_of_gpus(gpus, python_facts),
            *_of_storage(speed),
        ),
    )


def _without_a_trial(proc: Path, results: Path, python: TrainingPython) -> list[Cannot]:
    found = []
    if not (proc / "self" / "stat").exists():
        found.append(Cannot(what="trials cannot run", because=f"{proc} is not mounted", blocks=True))
    if python.torch is None:
        because = python.problem or f"{python.executable} has no torch"
        instead = "name the training's Python with --python FILE, or activate its environment"
        found.append(Cannot(what="no training can be started", because=because, instead=instead, blocks=True))
    where = nearest_existing(results)
    if not os.access(where, os.W_OK | os.X_OK):
        because = f"{where} cannot be written to"
        instead = "another folder with --results DIR"
        found.append(Cannot(what="trials cannot run", because=because, instead=instead, blocks=True))
    return found


def _of_limits(facts: Kernel, shm: SharedMemory) -> list[Cannot]:
    because = "no memory group of this process can be divided" if not facts.memory_group_writable else None
    because = because or "vtune makes no control groups"
    watched = "vtune looks at the trial every 5 s, at once when it jumps, and stops it: a spike in between may pass"
    found = [Cannot(what="a RAM limit is not enforced by the kernel", because=because, instead=watched)]
    if shm.size_bytes is None:
        found.append(Cannot(what="loader workers may not be able to pass batches", because="there is no /dev/shm"))
    elif shm.size_bytes < SMALL_SHM:
        because = f"/dev/shm has {shm.size_bytes >> 20} MiB: a full one kills a worker with a bus error"
        instead = "docker run --shm-size=8g, or --ipc=host"
        found.append(Cannot(what="many workers or large batches", because=because, instead=instead))
    return found


def _of_kernel(facts: Kernel) -> list[Cannot]:
    lacking = []
    if not facts.schedstat:
        lacking.append(Cannot(what="waiting for a core is not told from computing", because="no /proc/PID/schedstat"))
    if not facts.pss_anon:
        because = "/proc/PID/smaps_rollup has no Pss_Anon (Linux 5.9)"
        lacking.append(Cannot(what="RAM of a tree is unknown: shared pages would count twice", because=because))
    if not facts.process_io:
        because = "/proc/PID/io is missing or forbidden"
        lacking.append(Cannot(what="bytes read by each worker are unknown", because=because))
    if not facts.cachestat:
        because = "no cachestat (Linux 6.5), or the sandbox forbids it"
        lacking.append(Cannot(what="the page cache's share of the files cannot be asked for", because=because))
    if not facts.pidfd:
        because = "this Python has no pidfd_open"
        lacking.append(Cannot(what="a signal may reach a later process of the same number", because=because))
    if facts.proc_hides_others:
        because = "/proc is mounted with hidepid"
        lacking.append(Cannot(what="processes of other users are not seen", because=because))
    if facts.yama_ptrace_scope is not None and facts.yama_ptrace_scope >= 2:
        because = f"kernel.yama.ptrace_scope is {facts.yama_ptrace_scope}"
        lacking.append(Cannot(what="nothing can attach to a running training", because=because))
    return lacking


def _of_gpus(gpus: Devices, python: TrainingPython) -> list[Cannot]:
    found = []
    if gpus.why_none is not None:
        found.append(Cannot(what="no GPU is read", because=gpus.why_none))
    for one in gpus.devices:
        name = f"GPU {one.gpu.index}"
        if one.gpu.mig:
            because = "it is a MIG slice, for which the driver has no counter"
            found.append(Cannot(what=f"{name}: utilization is unknown", because=because))
        for metric, because in one.gpu.unknown.items():
            found.append(Cannot(what=f"{name}: {metric} is unknown", because=because))
        if one.processes is not None and _pids_are_the_hosts(one.processes):
            because = "the driver names the host's processes, not this container's"
            instead = "the device's memory minus what was used before, and the training's own count"
            found.append(Cannot(what=f"{name}: whose memory it is", because=because, instead=instead))
    if gpus.devices and python.torch is not None and python.accelerator is None:
        because = f"torch {python.torch} of {python.executable} was built for the CPU only"
        instead = "install the build of torch for this driver"
        found.append(Cannot(what="the training cannot use the GPU", because=because, instead=instead))
    if gpus.devices and gpus.cuda and _newer(python.cuda, gpus.cuda):
        because = f"torch is built for CUDA {python.cuda}, the driver runs {gpus.cuda}"
        found.append(Cannot(what="the training may not start on the GPU", because=because))
    return found


def _of_storage(speed: Scratch) -> list[Cannot]:
    found = []
    if speed.why_unknown is not None:
        found.append(Cannot(what="the results folder's speed is unknown", because=speed.why_unknown))
    kind = speed.filesystem or ""
    if kind.startswith("fuse") or kind in REMOTE:
        because = f"the kernel does not count them on {kind}"
        found.append(Cannot(what="bytes that come from the results folder's storage", because=because))
    return found


def _pids_are_the_hosts(processes: tuple[object, ...]) -> bool:
    """None of them exists here."""
    pids = [int(getattr(process, "pid", 0)) for process in processes]
    return bool(pids) and not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def _newer(built: str | None, runs: str) -> bool:
    """By the major version: within one, older drivers run newer minor ones."""
    try:
        return built is not None and int(built.split(".")[0]) > int(runs.split(".")[0])
    except ValueError:
        return False


def _gpu_processes(gpus: Devices) -> int | None:
    lists = [one.processes for one in gpus.devices if one.processes is not None]
    return len({process.pid for processes in lists for process in processes}) if lists else None


def _machine_bytes(proc: Path) -> int | None:
    try:
        return meminfo_bytes((proc / "meminfo").read_bytes(), b"MemTotal")
    except OSError:
        return None


def _load_average(proc: Path) -> float | None:
    try:
        return float((proc / "loadavg").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def _shared_memory(path: str) -> SharedMemory:
    try:
        status = os.statvfs(path)
    except OSError:
        return SharedMemory(size_bytes=None, free_bytes=None)
    return SharedMemory(size_bytes=status.f_blocks * status.f_frsize, free_bytes=status.f_bavail * status.f_frsize)
