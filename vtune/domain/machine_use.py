"""How a trial used its machine: its devices, its processes, its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vtune.domain.events import StageName


@dataclass(frozen=True, slots=True, kw_only=True)
class RamGrowth:
    """Memory that grew over the window, and what a long run would come to by it."""

    # Saturating: pages of the data set that forked workers touch. Linear: a leak, until something is shown to end it.
    kind: Literal["copy_on_write", "leak"]
    # The main process, all workers together, other processes of the tree, or shared memory, whosever it is.
    who: Literal["main", "workers", "others", "shared"]
    # At the end of the window.
    bytes_per_step: float
    bytes_per_step_ci95: tuple[float, float] | None = None
    # The most that can still come, where there is a most.
    cap_bytes: int | None = None
    # Steps after the window for which it goes on: to the run's end, or to the epoch's where its workers end with it.
    steps: int | None = None
    # What comes in them: its part of `ram_projected_bytes`.
    to_come_bytes: int | None = None
    # Where it ends, as far as that is known: of a run without a known length one epoch is sure.
    until: Literal["run", "epoch"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """One device over the window; memory over the whole trial."""

    index: int
    uuid: str
    name: str | None = None
    util_mean: float | None = None
    # Of this trial, as the driver or the training's own allocator saw it; `vram_from` says which.
    vram_peak_bytes: int | None = None
    vram_from: str | None = None
    vram_total_bytes: int | None = None
    # Most that others held on the device meanwhile.
    others_peak_bytes: int | None = None
    # Of the multiprocessors' time in the window, what others had, in percent.
    others_util_mean: float | None = None
    power_w_mean: float | None = None
    energy_j: float | None = None
    sm_clock_mhz_mean: float | None = None
    temperature_c_max: float | None = None
    # What slowed the clocks, and in which share of the samples.
    throttled: Mapping[str, float] = field(default_factory=dict)
    pcie_to_device_bytes_per_s: float | None = None
    # What could not be read, and why.
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTime:
    """Mean of the steps that were looked at closely."""

    # `prepare` stands for `transfer` where there is no device to bring a batch to.
    stage: StageName | Literal["prepare"]
    host_s: float
    device_s: float | None = None
    peak_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUse:
    """The main process or a loader worker, over the window."""

    role: str
    # Shares of the window: on a core, and ready to run but waiting for one.
    cpu_fraction: float | None = None
    queued_fraction: float | None = None
    requested_bytes_per_s: float | None = None
    read_bytes_per_s: float | None = None
    # Opened by the worker's Python code, in the batches that were looked at closely.
    files_per_sample: float | None = None
