"""What cannot be enforced or measured on a machine, in sentences: what, why, and what stands in for it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from vtune.telemetry.kernel import Kernel
from vtune.telemetry.memory import SharedMemory
from vtune.telemetry.mounts import counts_reads
from vtune.telemetry.nvml import Devices
from vtune.telemetry.nvml_device import HOSTS_PIDS, pids_are_the_hosts
from vtune.telemetry.scratch import Scratch, filesystem_of, nearest_existing
from vtune.telemetry.training_python import TrainingPython

# Docker's default for /dev/shm is 64 MiB, in which no loader worker can pass a batch of volumes.
SMALL_SHM = 2**30
NO_FILES = frozenset(("proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cannot:
    """`blocks`: without it no trial runs here at all. See Blocking."""

    what: str
    because: str
    instead: str | None = None
    blocks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking(Cannot):
    """An error of its own, and so never without a way out."""

    instead: str
    blocks: bool = True


def without_a_trial(proc: Path, results: Path, python: TrainingPython) -> list[Cannot]:
    found: list[Cannot] = []
    if not os.path.exists(proc / "self" / "stat"):
        instead = f"mount it: mount -t proc proc {proc}"
        found.append(Blocking(what="trials cannot run", because=f"{proc} is not mounted", instead=instead))
    if python.torch is None:
        because = python.problem or f"{python.executable} has no torch"
        instead = "name the training's Python with --python FILE, or activate its environment"
        found.append(Blocking(what="no training can be started", because=because, instead=instead))
    where = nearest_existing(results)
    in_the_way = _file_in_the_way(results)
    # The kernel's own file systems take no files, also of root.
    if in_the_way is not None or filesystem_of(where, proc) in NO_FILES or not os.access(where, os.W_OK | os.X_OK):
        because = f"{in_the_way} is no folder" if in_the_way is not None else f"{where} cannot be written to"
        instead = "another folder with --results DIR"
        found.append(Blocking(what="trials cannot run", because=because, instead=instead))
    return found


def _file_in_the_way(results: Path) -> Path | None:
    path = results.absolute()
    return next((one for one in (path, *path.parents) if os.path.exists(one) and not os.path.isdir(one)), None)


def of_limits(facts: Kernel, shm: SharedMemory | None) -> list[Cannot]:
    found = []
    if not facts.memory_group_writable:
        watched = (
            "vtune watches over the trial, ten times a second and faster near the limit: what fills memory faster than "
            "1 GiB a second may pass it by a part of that"
        )
        because = facts.memory_group or "no memory group of this process can be divided"
        found.append(Cannot(what="a RAM limit is not enforced by the kernel", because=because, instead=watched))
    if shm is None:
        found.append(Cannot(what="loader workers may not be able to pass batches", because="there is no /dev/shm"))
    elif shm.size_bytes < SMALL_SHM:
        because = f"/dev/shm has {shm.size_bytes >> 20} MiB: a full one kills a worker with a bus error"
        instead = "docker run --shm-size=8g, or --ipc=host"
        found.append(Cannot(what="many workers or large batches", because=because, instead=instead))
    return found


def of_kernel(facts: Kernel) -> list[Cannot]:
    lacking = []
    if not facts.schedstat:
        lacking.append(Cannot(what="waiting for a core is not told from computing", because="no /proc/PID/schedstat"))
    if not facts.pss_anon:
        because = "/proc/PID/smaps_rollup has no Pss_Anon (Linux 5.9)"
        lacking.append(Cannot(what="RAM of a tree is unknown: shared pages would count twice", because=because))
    if not facts.process_io:
        because = "/proc/PID/io is missing or forbidden"
        lacking.append(Cannot(what="bytes read by each worker are unknown", because=because))
    if not facts.pidfd:
        because = "this Python has no pidfd_open"
        lacking.append(Cannot(what="a signal may reach a later process of the same number", because=because))
    if facts.proc_hides_others:
        because = "/proc is mounted with hidepid"
        lacking.append(Cannot(what="processes of other users are not seen", because=because))
    return lacking


def of_gpus(gpus: Devices, python: TrainingPython) -> list[Cannot]:
    found: list[Cannot] = []
    if gpus.why_none is not None:
        found.append(Cannot(what="no GPU is read", because=gpus.why_none))
    for one in gpus.devices:
        name = f"GPU {one.gpu.index}"
        for metric, because in one.gpu.unknown.items():
            what = f"{name} is not read" if metric == "device" else f"{name}: {metric} is unknown"
            found.append(Cannot(what=what, because=because))
        if one.processes is not None and pids_are_the_hosts(one.processes):
            instead = "the device's memory minus what was used before, and the training's own count"
            found.append(Cannot(what=f"{name}: whose memory it is", because=HOSTS_PIDS, instead=instead))
    if gpus.devices and python.torch is not None and python.accelerator is None:
        because = f"torch {python.torch} of {python.executable} was built for the CPU only"
        instead = "install the build of torch for this driver"
        found.append(Cannot(what="the training cannot use the GPU", because=because, instead=instead))
    if gpus.devices and gpus.cuda and _newer(python.cuda, gpus.cuda):
        because = f"torch is built for CUDA {python.cuda}, the driver runs {gpus.cuda}"
        found.append(Cannot(what="the training may not start on the GPU", because=because))
    return found


def of_storage(speed: Scratch) -> list[Cannot]:
    found = []
    if speed.why_unknown is not None:
        found.append(Cannot(what="the results folder's speed is unknown", because=speed.why_unknown))
    if speed.filesystem is not None and not counts_reads(speed.filesystem):
        because = f"the kernel does not count them on {speed.filesystem}"
        found.append(Cannot(what="bytes that come from the results folder's storage", because=because))
    return found


def _newer(built: str | None, runs: str) -> bool:
    """By the major version: within one, older drivers run newer minor ones."""
    try:
        return built is not None and int(built.split(".")[0]) > int(runs.split(".")[0])
    except ValueError:
        return False
