"""What a trial's files say, read back: times are seconds of the system-wide monotonic clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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


Event = BatchLoaded | BatchDelivered | Backward | OptimizerStepped


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A rare event of one process (hello, loader, pass, optimizer, override, end, problem)."""

    pid: int
    t_s: float
    name: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSample:
    pid: int
    ppid: int
    name: str
    rss_bytes: int
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySample:
    """One look at the trial's tree and the machine, by the parent."""

    t_s: float
    processes: tuple[ProcessSample, ...]
    # Anonymous + shared memory of the tree, each page once; None between the rarer, dearer readings.
    ram_bytes: int | None
    shm_used_bytes: int | None
    # Cores kept busy by others than this trial and vtune itself.
    others_cores: float | None
    ram_available_bytes: int | None
