"""A trial as it stands in the journal. Field names are the public JSON; unknown is None, never 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from vtune.domain.advice import Advice
from vtune.domain.compared import Beat
from vtune.domain.compared import Cache as Cache
from vtune.domain.consumed import Consumed
from vtune.domain.effects import Scalar
from vtune.domain.machine_use import GpuUse, ProcessUse, RamGrowth, StageTime
from vtune.domain.others import OthersOnCores
from vtune.domain.prediction import Prediction
from vtune.domain.repeated import RanksRepeat, Repeated
from vtune.domain.steady import Doubt, Ground
from vtune.domain.trial import ENDS_BY_DISK, MEASURES_TIME, RaceLeg, TrialStatus

# Among a record's evidence: the training's own files as the trial ran them, path → the beginning of a SHA-256.
CODE = "code"
Bottleneck = Literal[
    "data", "compute", "host", "transfer", "storage", "validation", "checkpoint", "balanced", "unknown"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    p10: float
    p50: float
    p90: float
    p99: float
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    epoch_s: float | None = None
    run_s: float | None = None
    cost: float | None = None
    # As planned; None where nobody has told.
    epochs: int | None = None


# How the rate came about: by replaying the loader's schedule with the measured costs; by batch means, where only the
# training's side of the loader was seen; by whole epochs, where they are too short for a steady part.
RateFrom = Literal["twin", "batch_means", "epochs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCost:
    """A loader worker's batch: its wall time, and the share of it spent computing."""

    batch_s: float
    cpu_fraction: float | None
    # The batches that this was learnt from, and how they spread.
    batches: int | None = None
    # Of the workers, those that still had something to give.
    delivering: int | None = None
    median_s: float | None = None
    cv: float | None = None
    # Those that took several times the median, in medians.
    slow: tuple[float, ...] = ()
    # Between a worker's being free, with work ordered, and its start on the next batch.
    dispatch_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCost:
    """What the training itself takes between two batches, data for free."""

    batch_s: float
    cv: float | None = None
    # From the later of a batch's being finished and asked for to its being there: copying, queues, pinning.
    delivery_s: float | None = None
    # Work that only every n-th step does was found and kept in its place; such a step takes so much longer.
    period_steps: int | None = None
    period_extra_s: float | None = None
    # Steps that took many times the usual, by their numbers from the training's first on.
    long_steps: tuple[int, ...] = ()


Change = Literal[
    "storage_free",
    "compute_free",
    "data_free",
    "twice_the_workers",
    "twice_the_prefetch",
    "order_not_kept",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The replay once more with one thing changed."""

    change: Change
    samples_per_s: float
    # The setting that it stands for, where it is one.
    setting: tuple[str, Scalar] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """Rare slow batches: what a short window sees too few of."""

    # Of this and the study's earlier trials with batches of the same size.
    batches: int
    slow: int
    # They carry enough of the time to move the rate.
    matters: bool
    # With none seen: the share that may be slow all the same (95 %), and the rate if so many took ten times as long.
    share_at_most: float | None = None
    samples_per_s_at_worst: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One batch size of the ceiling's ladder, fed from memory."""

    batch_size: int
    fits: bool
    steps: int = 0
    samples_per_s: float | None = None
    step_s: float | None = None
    # Of the training's process while this size ran.
    vram_peak_bytes: int | None = None
    ram_peak_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The training fed from memory, and the loader drained by nobody but itself."""

    compute_samples_per_s: float | None = None
    loader_samples_per_s: float | None = None
    ladder: tuple[Rung, ...] = ()
    # The largest that ran; None where not even the training's own size did.
    largest_batch: int | None = None
    # Why the ladder ends there, in words.
    ended_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Time without steps that a run pays again and again."""

    # A stop is neither of the others: only full runs show it.
    what: Literal["validation", "checkpoint", "stop"]
    # Of one of them, and how many were seen.
    seconds: float
    seen: int
    # Seen inside an epoch or at its boundary it is in the rate or in the restart already.
    counted: bool = False
    # Between the steps of an epoch, too seldom to tell how often: in no rate, and each epoch is taken to have one.
    seldom: bool = False
    # Between the steps of an epoch, with two of them or more: how many steps apart. Where they are seldom, each epoch
    # is taken to have as many as that makes.
    every_steps: float | None = None
    # Before the first step, of a pass that was cut: so few batches, and so cold, say nothing of a whole one. The pause
    # is in no projection.
    cut_after_batches: int | None = None
    # The launch that showed it, where the trial has not seen it, or not its interval.
    launch: int | None = None
    # Where the rate holds it: its share of the time, and the part of that spent waiting for batches.
    time_fraction: float | None = None
    wait_fraction: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationSeen:
    """The pass without learning of which most was seen."""

    batches: int
    # As its sampler tells; None where nobody does.
    of_batches: int | None = None
    # To its end; or the script itself left it before, and went on with its training.
    whole: bool = False
    cut_by_script: bool = False
    # Else a later batch may be larger, and take more.
    largest_shape_known: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Numbers of one trial, from its files alone."""

    samples_per_s: float | None = None
    samples_per_s_ci95: tuple[float, float] | None = None
    steps_measured: int = 0
    steady: bool = False
    rate_from: RateFrom | None = None
    # What keeps it from being steady; and the first of them in words.
    doubts: tuple[Doubt, ...] = ()
    unsteady_because: str | None = None
    # None in journals of older versions, and where there is no rate.
    ground: Ground | None = None
    step_time_s: StepTimes | None = None
    data_wait_fraction: float | None = None
    # The part of it that other loaders than the training's took: a second loader, a validation in the same step.
    other_loaders_wait_fraction: float | None = None
    compute_samples_per_s: float | None = None
    loader_samples_per_s: float | None = None
    worker_cost: WorkerCost | None = None
    training_cost: TrainingCost | None = None
    what_if: tuple[WhatIf, ...] = ()
    tail: Tail | None = None
    # Of a trial that was a search for the ceiling, and of no other: its own rates say nothing of a run.
    ceiling: Ceiling | None = None
    # Samples a second times what one holds in space, where batches have three dimensions of it.
    voxels_per_s: float | None = None
    # The window lived on batches that lay ready before it: the loader is slower than the rate.
    fed_from_stock: bool = False
    startup_s: float | None = None
    first_batch_s: float | None = None
    epoch_restart_s: float | None = None
    # The part of it spent waiting for the first batch.
    epoch_restart_wait_s: float | None = None
    # From an epoch's last step until the next one's first batch was asked for: validation, checkpoints.
    between_epochs_s: float | None = None
    pauses: tuple[Pause, ...] = ()
    # Epochs are so short that the rate is that of whole ones, their restarts included.
    restarts_in_rate: bool = False
    # Each pass over the data has a loader of its own: its workers end with it, whatever its settings say.
    loader_rebuilt: bool = False
    # Where several loaders feed the steps: where each was made, the one that settings turn first. The samples of all of
    # them count.
    fed_by: tuple[str, ...] = ()
    # Where a pass over the loader is only a part of an epoch: its samples, and its time with the restart.
    samples_per_part: int | None = None
    part_s: float | None = None
    samples_per_s_whole_run: float | None = None
    ram_peak_bytes: int | None = None
    # At the most of the planned run, growth included.
    ram_projected_bytes: int | None = None
    ram_projected_ci95: tuple[int, int] | None = None
    ram_growth: tuple[RamGrowth, ...] = ()
    # Where no growth was shown: a leak of less than this would not have been, and is in the interval.
    ram_unseen_bytes_per_step: float | None = None
    shm_peak_bytes: int | None = None
    # Of all tensors in the largest batch that was delivered.
    batch_bytes: int | None = None
    # What one batch takes of /dev/shm: its segments in whole pages, with a share on top where they were not counted or
    # batches differ.
    batch_shm_bytes: int | None = None
    # What was free of /dev/shm before the trial.
    shm_room_bytes: int | None = None
    # What full queues take of /dev/shm, and of pinned memory where batches are pinned.
    shm_needed_bytes: int | None = None
    pinned_bytes: int | None = None
    # What the run leaves on its disk with each epoch; what is written over and over counts once and not here.
    disk_bytes_per_epoch: int | None = None
    workers_rss_bytes: tuple[int, ...] = ()
    # The main process first, then the workers in their order.
    processes: tuple[ProcessUse, ...] = ()
    # Of what the data needed, the share that had to come from the device.
    cold_fraction: float | None = None
    cache: Cache = "unknown"
    page_cache_bytes: int | None = None
    gpus: tuple[GpuUse, ...] = ()
    # The largest of the devices' peaks.
    vram_peak_bytes: int | None = None
    # As the training's own allocator counted: the largest of one process on one device.
    vram_allocated_peak_bytes: int | None = None
    vram_reserved_peak_bytes: int | None = None
    # Of the largest validation step that was seen, as the training's own allocator counted.
    vram_validation_peak_bytes: int | None = None
    validation: ValidationSeen | None = None
    # After the warm-up, those that helped: an allocator that has to give memory back and ask again is out of room.
    alloc_retries: int | None = None
    # A step on the device's clock, and the time it had nothing to do before it.
    device_step_s: float | None = None
    device_gap_s: float | None = None
    stages: tuple[StageTime, ...] = ()
    # Of the same steps: from their end to the next batch's being asked for.
    after_step_s: float | None = None
    # Shares of the time in which the device idled: for its data's way to it, and for the main process itself.
    transfer_fraction: float | None = None
    host_fraction: float | None = None
    # Without a device: the share of the time that the training's process is at work outside its model and optimizer,
    # validations and checkpoints apart.
    outside_fraction: float | None = None
    # The first step after which a parameter was found not to be a number, at the looks that were taken.
    diverged_at_step: int | None = None
    # Steps that a gradient scaler left out because of infinities.
    skipped_steps: int | None = None
    # Of the fields here that are null, or empty: why, where somebody knows.
    unknown: Mapping[str, str] = field(default_factory=dict)
    # What the mathematics really ran with: autocast, TF32, cuDNN's search.
    precision: Mapping[str, Scalar] = field(default_factory=dict)
    # Cores kept busy by the training's own processes, and by everybody else.
    tree_cores: float | None = None
    others_cores: float | None = None
    # Who they were in the window, and whether they left enough to measure by; None where nobody looked.
    others: OthersOnCores | None = None
    ranks: int = 1
    # Exact, or None with the reason in `consumed`.
    effective_batch: int | None = None
    # None in journals of older versions, whose effective batch is a rounded mean.
    consumed: Consumed | None = None
    # Loader workers that make the same data; None too where nothing of it was seen.
    repeated: Repeated | None = None
    ranks_repeat: RanksRepeat | None = None
    samples_per_epoch: int | None = None
    epoch_bound_by: Literal["data", "iterations"] | None = None
    projected: Projection = field(default_factory=Projection)
    # What the training's loader really ran with, whatever was asked.
    effective_settings: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def samples_per_step(self) -> float | None:
        """In the mean, for arithmetic on rates; the effective batch need not exist."""
        return self.consumed.mean if self.consumed is not None else self.effective_batch

    @property
    def samples_per_s_epoch(self) -> float | None:
        """With the restart that each epoch, or each part of the data, pays, where the number of epochs is not known."""
        epoch_s = self.projected.epoch_s
        if self.samples_per_epoch and epoch_s:
            return self.samples_per_epoch / epoch_s
        return self.samples_per_part / self.part_s if self.samples_per_part and self.part_s else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    bottleneck: Bottleneck
    verdict: str
    why: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()
    # The most that better data loading could win, as a ratio.
    headroom: float | None = None

    @property
    def next(self) -> tuple[str, ...]:
        return tuple(one.text for one in self.advice)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    trial: int
    origin: str
    settings: Mapping[str, Scalar]
    reason: str
    status: TrialStatus
    detail: str | None
    seconds: float
    measurement: Measurement
    diagnosis: Diagnosis
    # Things the reader must know and no field says: output files elsewhere, overrides that were left alone.
    notes: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    # What the trial turned; None in records that do not say it. `settings` also holds what was there anyway.
    asked: Mapping[str, Scalar] | None = None
    race: RaceLeg | None = None
    # What it was expected to do, before it was run.
    predicted: Prediction | None = None
    # What it was ended early for: a leader that was surely faster. Its rate is good enough to lose by, and no more.
    beaten: Beat | None = None

    @property
    def on_busy_machine(self) -> bool:
        """Other programs held the cores that it would have used: its numbers are shown, and decide nothing."""
        others = self.measurement.others
        return others is not None and others.busy and self.status in MEASURES_TIME and self.origin != "launch"

    @property
    def filled_its_disk(self) -> bool:
        """The disk space that a trial may fill ended it: a limit did, and neither its settings nor the training."""
        return self.evidence.get("ended_by") == "disk" and self.status in ENDS_BY_DISK
