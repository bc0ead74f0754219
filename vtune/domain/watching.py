"""What `vtune watch` sees of a running training, whoever started it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from vtune.domain.effects import Scalar
from vtune.domain.events import GpuSample
from vtune.domain.renewal import Renewal

# A launcher (torchrun, mp.spawn's parent) holds torch, but the steps are made below it.
Role = Literal["training", "worker", "launcher", "other"]
VerdictKind = Literal["starved", "cpu", "host", "gpu", "still", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One process as its table entry and its command line show it."""

    ppid: int
    name: str
    command: tuple[str, ...]
    # None where its maps are not ours to read.
    holds_torch: bool | None
    # Major and minor; None where its files do not tell.
    torch: tuple[int, int] | None = None
    # It has a device of the GPU's driver open.
    on_gpu: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessNow:
    """Counters are since its start; what may not be read is None."""

    pid: int
    role: Role
    # The kernel's letter: R runs, S sleeps, D waits for a device and cannot be woken.
    state: str
    # Of all threads.
    cpu_s: float
    # Ready to run, but waiting for a core: of the main thread.
    queued_s: float | None
    anon_bytes: int | None
    # What it asked of read() and write(), pipes included: who gets a batch reads.
    moved_bytes: int | None
    read_bytes: int | None
    written_bytes: int | None
    # The kernel's function in which its main thread sleeps.
    sleeps_in: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    t_s: float
    processes: tuple[ProcessNow, ...]
    # Of the tree, each page once; None between the rarer, dearer readings.
    ram_bytes: int | None = None
    ram_available_bytes: int | None = None
    shm_used_bytes: int | None = None
    others_cores: float | None = None
    gpus: tuple[GpuSample, ...] = ()
    # Lines that its log gained since the last look.
    log_lines: int = 0

    def of(self, role: Role) -> tuple[ProcessNow, ...]:
        return tuple(process for process in self.processes if process.role == role)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    kind: VerdictKind
    sentence: str
    evidence: tuple[str, ...] = ()
    # Share of its time in which the training waits for data, as it looks from outside; or as its counters tell.
    wait_share: float | None = None
    wait_measured: bool = False
    seen_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one line of a log says."""

    step: int | None = None
    steps: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    # A progress bar's own reckoning.
    steps_per_s: float | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    # When the line was read; None of those that were there before.
    t_s: float | None
    told: Told


@dataclass(frozen=True, slots=True, kw_only=True)
class LogProgress:
    step: int | None = None
    steps: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    steps_per_s: float | None = None
    # None where the log tells no end.
    left_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    bytes_per_s: float
    # Half of the 95 % interval.
    give_or_take: float
    seen_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRow:
    pid: int
    role: Role
    cores: float | None
    queued_share: float | None
    disk_share: float | None
    sleeps_in: str | None
    ram_bytes: int | None
    growth: Growth | None
    read_bytes_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow:
    name: str
    util_percent: float | None
    used_bytes: int | None
    limit_bytes: int | None
    throttled_by: tuple[str, ...]
    others_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSeen:
    """Of a full run that vtune launched, as its own files tell."""

    study: str
    launch: int
    attempt: int
    # Whose settings it runs with, and what was turned for them.
    trial: int | None
    settings: Mapping[str, Scalar]
    guard_pid: int | None
    guard_lives: bool
    # Holds the RAM limit; a SIGTERM to it asks the training to save and end.
    supervisor_pid: int | None
    # Why it was asked to save and end; None as long as it was not.
    ending: str | None
    step_downs: int
    # Once more with the same settings.
    retries: int
    # Optimizer steps, with those of earlier attempts.
    steps: int
    # From a checkpoint of an earlier launch: what had been done by then is not among them.
    resumed: bool
    # None where the length of the run is not known.
    steps_at_end: int | None
    left_s: float | None
    promised_samples_per_s: float | None
    # Steady: over the attempt by its guard; without one since the watching began.
    achieved_samples_per_s: float | None
    achieved_by: Literal["guard", "looks"] | None
    # The newest renewal of its promise.
    renewed: Renewal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """All that is shown at one moment."""

    pid: int
    command: str
    ran_s: float
    seen_s: float
    ended: bool
    processes: tuple[ProcessRow, ...]
    gpus: tuple[GpuRow, ...]
    gpu_unread_because: str | None
    ram_bytes: int | None
    ram_limit_bytes: int | None
    ram_growth: Growth | None
    # Seconds until it is passed, at this growth; None where nothing grows for sure.
    ram_limit_in_s: float | None
    shm_used_bytes: int | None
    shm_bytes: int | None
    cores: float
    others_cores: float | None
    read_bytes_per_s: float | None
    written_bytes_per_s: float | None
    progress: LogProgress
    # Why there is no log to read; None where it is read.
    no_log_because: str | None
    errors: tuple[str, ...]
    verdict: Verdict
    # In words; None without a price.
    costs: str | None
    tuning: str
    # None where vtune did not launch it.
    launch: LaunchSeen | None = None
    # What could not be read, and what it would take.
    missing: tuple[str, ...] = ()
