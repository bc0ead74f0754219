"""What a simulated training is: plain data, so that a surface can be written down, varied and searched over.

Times are seconds of a machine at its usual pace. Nothing of it is known to the analysis, which reads a trial's files.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from vtune.domain.effects import Scalar
from vtune.errors import UsageError

GIB = 2**30
MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCost:
    """One sample in a loader worker: first its bytes are waited for, then it is computed on."""

    cpu_s: float = 0.0
    # Round trips to the storage, before the first byte comes.
    latency_s: float = 0.0
    read_bytes: float = 0.0
    # Standard deviation over mean, of one sample.
    cv: float = 0.0
    law: Literal["gamma", "lognormal"] = "gamma"
    slow_fraction: float = 0.0
    slow_factor: float = 10.0
    # What it holds in a finished batch.
    batch_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderCost:
    # In the training's process, for each worker that it forks.
    fork_s: float = 0.01
    # From the fork to the first request for work: imports, the data set's copy.
    boot_s: float = 0.05
    # Once in each worker's life, within its first batch.
    first_batch_s: float = 0.0
    # Of each batch, however small: collating, pickling.
    batch_s: float = 0.0
    # From an index's being sent to its being begun by an idle worker; also what a busy one takes between two batches.
    dispatch_s: float = 0.0
    # In `next()`, for each batch that it takes from the queue.
    receive_s: float = 0.0
    overhead_cv: float = 0.3
    # The pin thread's pace.
    pin_bytes_per_s: float | None = None
    # A lock around all of the loading, shared by the workers.
    serialized: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    # On the device, or wherever nothing else competes: base + by sample, times the cliffs that the batch has reached.
    base_s: float = 0.0
    sample_s: float = 0.0
    cliffs: tuple[tuple[int, float], ...] = ()
    cv: float = 0.0
    # On the cores, in competition with the workers.
    host_s: float = 0.0
    host_sample_s: float = 0.0
    host_threads: float = 1.0
    # Work on the host that only every n-th step does.
    every_steps: int | None = None
    every_s: float = 0.0
    # Beyond the usual: the first step, and each of the next few.
    first_s: float = 0.0
    warm_up_steps: int = 0
    warm_up_s: float = 0.0
    # To the device.
    pageable_bytes_per_s: float | None = None
    pinned_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    cores: float = 16.0
    # Hardware threads by core, and what a core with all of them busy does of one thread's work.
    threads_by_core: int = 1
    all_threads_gain: float = 1.0
    ram_bytes: int = 64 * GIB
    shm_bytes: int = 32 * GIB
    # Of the mount; one stream alone gets `stream`. None: as fast as asked.
    storage_bytes_per_s: float | None = None
    stream_bytes_per_s: float | None = None
    # Of the samples, those that lie in the page cache.
    cached_fraction: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    main_bytes: float = 1.0 * GIB
    worker_bytes: float = 300.0 * MIB
    # A worker's working set by sample of the batch that it makes.
    work_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    name: str = "Simulated Accelerator"
    vram_bytes: int = 80 * GIB
    # The model and its optimizer, and what each sample of the batch adds.
    base_bytes: float = 4.0 * GIB
    sample_bytes: float = 1.0 * GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    # By how much two launches of the same thing differ.
    launch_sd: float = 0.01
    # Of the machine's pace, and how long it remembers itself.
    drift_sd: float = 0.0
    drift_time_s: float = 600.0
    # Neighbours come for about so long, take so much of the pace and keep so many cores busy.
    episode_share: float = 0.0
    episode_s: float = 60.0
    episode_slowdown: float = 0.1
    episode_cores: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmodelled:
    """Effects that no model of a loader knows: the honest test of one."""

    # A smooth random factor over the settings.
    field_sd: float = 0.1
    # Costs that come in slow and fast stretches of so many samples.
    stretch_sd: float = 0.0
    stretch_samples: int = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsteady:
    """Costs that are not the same all through a run: what a short window may not see."""

    # In which order the samples come, as the sampler tells it; costs by index follow the same order.
    order: Literal["shuffled", "file_order", "unknown"] = "shuffled"
    # Each step stands still with this chance.
    stop_chance: float = 0.0
    stop_s: float = 0.0
    # The training's own steps: the logarithm of their cost remembers the step before by this much …
    step_follows: float = 0.0
    step_sd: float = 0.0
    # … or they are slow by a factor, for stretches that begin and end by chance.
    slow_begins: float = 0.0
    slow_ends: float = 1.0
    slow_factor: float = 1.0
    # A storage is fast for so many samples; then it takes so many times as long.
    credit_samples: int | None = None
    credit_factor: float = 1.0
    # By index: an epoch's last sample costs so much more than its first; and of so many samples in a row the first few
    # take longer.
    grows: float = 0.0
    stretch_every: int | None = None
    stretch_samples: int = 300
    stretch_factor: float = 1.0
    # From the second epoch on samples cost this share: the data set has kept them.
    kept_factor: float | None = None
    # The machine loses this share of its pace, evenly over so many seconds.
    slows: float = 0.0
    slows_over_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    name: str
    seed: int = 0
    sample: SampleCost = field(default_factory=SampleCost)
    loader: LoaderCost = field(default_factory=LoaderCost)
    step: StepCost = field(default_factory=StepCost)
    box: Box = field(default_factory=Box)
    memory: Memory = field(default_factory=Memory)
    device: Device | None = None
    noise: Noise = field(default_factory=Noise)
    unmodelled: Unmodelled | None = None
    unsteady: Unsteady = field(default_factory=Unsteady)
    # What it runs with when nothing is turned, in the knobs' names.
    settings: Mapping[str, Scalar] = field(default_factory=lambda: {"workers": 2, "batch_size": 1})
    # None: one endless epoch.
    samples_per_epoch: int | None = None
    epochs: int = 1
    # Between two epochs.
    validation_s: float = 0.0
    # From the start of the process to its first loader.
    startup_s: float = 5.0
    # The script seeds its shuffling: each launch sees the same samples in the same order.
    seeded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the loader really runs with."""

    workers: int
    prefetch: int
    batch: int
    persistent: bool = False
    pin: bool = False
    in_order: bool = True
    accumulate: int = 1

    @property
    def stock(self) -> int:
        return self.workers * self.prefetch


def settings_of(surface: Surface, asked: Mapping[str, Scalar]) -> Settings:
    """As torch would: two batches ahead unless said otherwise, and neither queue nor persistence without workers."""
    wanted = {**surface.settings, **asked}
    workers = _count(wanted, "workers", 0)
    return Settings(
        workers=workers,
        prefetch=_count(wanted, "prefetch_factor", 2) if workers else 0,
        batch=_count(wanted, "batch_size", 1),
        persistent=bool(wanted.get("persistent_workers")) and workers > 0,
        pin=bool(wanted.get("pin_memory")),
        in_order=wanted.get("in_order") is not False,
        accumulate=_count(wanted, "accumulate_steps", 1),
    )


def surface_of(data: Mapping[str, Any]) -> Surface:
    """From plain data, as a YAML file gives it; a name that no surface has is refused."""
    surface = _built(Surface, data, "surface")
    assert isinstance(surface, Surface)
    return surface


def _count(settings: Mapping[str, Scalar], name: str, otherwise: int) -> int:
    value = settings.get(name)
    return int(value) if isinstance(value, (int, float)) else otherwise


def _built(kind: type[Any], data: Mapping[str, Any], where: str) -> Any:
    known = {one.name for one in dataclasses.fields(kind)}
    strange = [name for name in data if name not in known]
    if strange:
        raise UsageError(f'unknown key "{strange[0]}" in {where}', hint=f"known keys: {', '.join(sorted(known))}")
    hints = get_type_hints(kind)
    values = {name: _value(hints[name], value, f"{where}.{name}") for name, value in data.items()}
    try:
        return kind(**values)
    except TypeError:
        missing = [one.name for one in dataclasses.fields(kind) if one.name not in data and _is_required(one)]
        raise UsageError(
            f"{where} has no {', '.join(missing)}", hint=f"known keys: {', '.join(sorted(known))}"
        ) from None


def _is_required(one: dataclasses.Field[Any]) -> bool:
    return one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING


def _value(hint: Any, value: Any, where: str) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        hint = next((one for one in get_args(hint) if one is not type(None)), hint)
    if value is not None and dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, Mapping):
            raise UsageError(
                f"{where} must have keys, got {value!r}",
                hint=f"known keys: {', '.join(one.name for one in dataclasses.fields(hint))}",
            )
        return _built(hint, value, where)
    if isinstance(value, list):
        return tuple(tuple(one) if isinstance(one, list) else one for one in value)
    return value
