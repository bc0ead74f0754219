"""What a trial's files say, read back: times are seconds of the system-wide monotonic clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from vtune.domain.others import OtherProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLoaded:
    """Seen inside a loader worker: one batch from its index to the finished object."""

    pid: int
    worker: int
    # How often the workers were resumed: persistent workers serve several passes.
    resume: int
    index: int
    started_s: float
    finished_s: float
    cpu_s: float
    samples: int
    # Files that Python code of this worker opened for it; only of a batch that was looked at closely.
    files: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDelivered:
    """Seen where the loader is iterated: one `next()`."""

    pid: int
    loader: int
    pass_number: int
    # Position in the pass as the loader numbers it; -1 when it does not keep order.
    index: int
    asked_s: float
    returned_s: float
    leading: int
    # Samples by the sampler's own count; 0 when unknown (iterable data sets, no automatic batching).
    samples: int
    main_thread: bool
    nested: bool
    grad: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Backward:
    pid: int
    number: int
    started_s: float
    ended_s: float
    main_thread: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerStepped:
    pid: int
    optimizer: int
    number: int
    ended_s: float
    main_thread: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceStepped:
    """One optimizer step on the device's own clock, read once the device had passed it."""

    pid: int
    device: int
    optimizer: int
    # The same as that of the OptimizerStepped.
    number: int
    # From the moment the device learnt that a batch had come to the end of its step.
    busy_s: float
    # The device had nothing to do since the end of the step before; None where nobody knows.
    gap_s: float | None


StageName = Literal["begin", "transfer", "forward", "loss", "backward", "step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEnded:
    """A mark within one of the few steps that are looked at closely: the stage before it has ended."""

    pid: int
    device: int | None
    # `begin` opens the step: its batch has come.
    stage: StageName
    # Sampled steps are numbered by the OptimizerStepped that ends them.
    number: int
    host_s: float
    # On the device's clock, since `begin`; None without a device.
    device_s: float | None
    # Most that was allocated on the device within the stage.
    peak_bytes: int | None


Event = BatchLoaded | BatchDelivered | Backward | OptimizerStepped | DeviceStepped | StageEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A rare event of one process, by name: docs/decisions/0002 and 0005 list them."""

    pid: int
    t_s: float
    name: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFrame:
    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStack:
    """Where one process of a silent trial was, just before it was ended."""

    pid: int
    ppid: int
    name: str
    # As in /proc: R running, S waiting, D waiting and deaf to every signal, T stopped.
    state: str
    # The kernel's function that it waits in; None where it does not say.
    waits_in: str | None
    # Share of a core that it had while it was looked at.
    busy: float | None
    # Of the main thread, innermost first; empty where it did not answer.
    frames: tuple[StackFrame, ...] = ()
    # Of its other threads.
    threads: tuple[tuple[StackFrame, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSample:
    pid: int
    ppid: int
    name: str
    rss_bytes: int
    cpu_s: float
    # Resident and of no file, at each look. Of a forked process that counts what it still shares with its parent: it
    # does not grow by what is copied on write.
    anon_bytes: int | None = None
    # The same, each page divided by those who share it; only at the rarer, dearer readings.
    own_bytes: int | None = None
    # Ready to run, but waiting for a core (schedstat); None where the kernel does not count it.
    queued_s: float | None = None
    # What read() and its kin were asked for, from wherever it came; None for a process we may not look into.
    requested_bytes: int | None = None
    # What had to come from a block device for it, page-ins of mapped files included; not counted for network mounts.
    read_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """One device as its driver sees it. Each field fails alone; why is told once, in the trial's gpus.json."""

    uuid: str
    # Time since the last look in which any kernel ran, in percent; says nothing of how full the device was.
    util_percent: float | None = None
    # Of the whole device; what the driver reserves for itself is apart.
    used_bytes: int | None = None
    # Of the trial's own processes, and of everybody else's; None where the driver does not tell whose it is.
    own_bytes: int | None = None
    others_bytes: int | None = None
    # Of the multiprocessors' time since the last look, what others had.
    others_util_percent: float | None = None
    power_w: float | None = None
    # A counter: only differences mean something.
    energy_j: float | None = None
    sm_clock_mhz: float | None = None
    temperature_c: float | None = None
    # Names of what slows the clocks right now.
    throttled_by: tuple[str, ...] = ()
    pcie_to_device_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySample:
    """One look at the trial's tree and the machine, by the parent."""

    t_s: float
    processes: tuple[ProcessSample, ...]
    # Anonymous + shared memory of the tree, each page once; None between the rarer, dearer readings.
    ram_bytes: int | None
    shm_used_bytes: int | None
    # Of the cores that the trial may use, those kept busy by others than it and vtune itself.
    others_cores: float | None
    ram_available_bytes: int | None
    # Who they are, where they keep a share of a core busy that is worth a name; None where nobody looked.
    programs: tuple[OtherProgram, ...] | None = None
    # Page cache of the machine (of the cgroup where one limits us).
    page_cache_bytes: int | None = None
    gpus: tuple[GpuSample, ...] = ()
