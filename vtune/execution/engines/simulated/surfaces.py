"""Surfaces with names: the kinds of trainings that a tuner meets, made up, with figures of a plausible size."""

from __future__ import annotations

from dataclasses import replace

from vtune.execution.engines.simulated.surface import (
    GIB,
    MIB,
    Box,
    Device,
    LoaderCost,
    Memory,
    Noise,
    SampleCost,
    StepCost,
    Surface,
    Unmodelled,
)

# What a queue costs wherever processes pass batches to each other.
_QUEUES = LoaderCost(dispatch_s=0.0005, receive_s=0.0008)

# Large volumes cut and deformed on the cores: 18 s a batch with one worker, a second or two of training.
SCROLLS = Surface(
    name="scrolls",
    seed=11,
    sample=SampleCost(cpu_s=14.0, latency_s=1.5, read_bytes=60 * MIB, cv=0.25, batch_bytes=11 * MIB),
    loader=replace(_QUEUES, fork_s=0.4, boot_s=6.0, first_batch_s=2.0, batch_s=0.2),
    step=StepCost(
        base_s=0.7,
        sample_s=0.9,
        cv=0.03,
        first_s=8.0,
        warm_up_steps=2,
        warm_up_s=0.5,
        host_s=0.15,
        every_steps=10,
        every_s=1.2,
    ),
    box=Box(cores=12, ram_bytes=170 * GIB, shm_bytes=85 * GIB, storage_bytes_per_s=400e6),
    memory=Memory(main_bytes=9 * GIB, worker_bytes=6.5 * GIB, work_bytes=0.4 * GIB),
    device=Device(name="Simulated 80 GB", vram_bytes=80 * GIB, base_bytes=6 * GIB, sample_bytes=15 * GIB),
    settings={"workers": 1, "prefetch_factor": 1, "batch_size": 1},
    samples_per_epoch=4000,
    epochs=32,
    validation_s=120.0,
    startup_s=45.0,
)

# The same kind at a hundredth of the time: for whoever waits for real processes beside it.
SMALL_VOLUMES = Surface(
    name="small-volumes",
    seed=12,
    sample=SampleCost(cpu_s=0.12, latency_s=0.02, cv=0.3, batch_bytes=4 * MIB),
    loader=replace(_QUEUES, boot_s=0.2, first_batch_s=0.1),
    step=StepCost(base_s=0.02, sample_s=0.012, cv=0.05, first_s=1.0, host_s=0.004),
    box=Box(cores=8, threads_by_core=2, all_threads_gain=1.25, ram_bytes=64 * GIB),
    memory=Memory(main_bytes=2 * GIB, worker_bytes=0.8 * GIB),
    device=Device(vram_bytes=40 * GIB, base_bytes=3 * GIB, sample_bytes=2.5 * GIB),
    settings={"workers": 2, "prefetch_factor": 2, "batch_size": 2},
    samples_per_epoch=2000,
    epochs=50,
    validation_s=5.0,
)

# Small files, each a round trip away: more workers help for long.
IMAGES_FAR_AWAY = Surface(
    name="images-far-away",
    seed=13,
    sample=SampleCost(
        cpu_s=0.006, latency_s=0.045, read_bytes=110e3, cv=0.6, law="lognormal", batch_bytes=3 * 224 * 224 * 4
    ),
    loader=replace(_QUEUES, boot_s=1.5, first_batch_s=0.5, batch_s=0.01, pin_bytes_per_s=3e9),
    step=StepCost(
        base_s=0.012,
        sample_s=0.0009,
        cv=0.02,
        first_s=4.0,
        warm_up_steps=3,
        warm_up_s=0.2,
        pageable_bytes_per_s=3e9,
        pinned_bytes_per_s=12e9,
    ),
    box=Box(cores=16, ram_bytes=62 * GIB, shm_bytes=31 * GIB, storage_bytes_per_s=1.2e9, stream_bytes_per_s=40e6),
    memory=Memory(main_bytes=3 * GIB, worker_bytes=0.5 * GIB, work_bytes=0.5 * MIB),
    device=Device(vram_bytes=23 * GIB, base_bytes=2 * GIB, sample_bytes=0.055 * GIB),
    settings={"workers": 8, "prefetch_factor": 2, "batch_size": 256, "persistent_workers": True},
    samples_per_epoch=50_000,
    epochs=90,
    validation_s=20.0,
)

# A shared line of fixed width: workers beyond a few only wait for each other.
NARROW_MOUNT = Surface(
    name="narrow-mount",
    seed=14,
    sample=SampleCost(cpu_s=0.05, latency_s=0.002, read_bytes=8 * MIB, cv=0.2, batch_bytes=8 * MIB),
    loader=replace(_QUEUES, boot_s=0.6, first_batch_s=0.2),
    step=StepCost(base_s=0.03, sample_s=0.02, cv=0.03, first_s=2.0),
    box=Box(cores=16, storage_bytes_per_s=110e6, stream_bytes_per_s=60e6),
    memory=Memory(main_bytes=3 * GIB, worker_bytes=0.6 * GIB),
    device=Device(vram_bytes=24 * GIB, base_bytes=2 * GIB, sample_bytes=1.2 * GIB),
    settings={"workers": 4, "prefetch_factor": 2, "batch_size": 4},
    samples_per_epoch=12_000,
    epochs=20,
    validation_s=10.0,
)

# The device is the limit as soon as a few workers run; larger batches use it better, up to a cliff.
DEVICE_BOUND = Surface(
    name="device-bound",
    seed=15,
    sample=SampleCost(cpu_s=0.004, cv=0.2, batch_bytes=600e3),
    loader=replace(_QUEUES, boot_s=1.0, batch_s=0.003, pin_bytes_per_s=4e9),
    step=StepCost(
        base_s=0.04,
        sample_s=0.006,
        cliffs=((96, 1.12),),
        cv=0.015,
        first_s=6.0,
        warm_up_steps=3,
        warm_up_s=0.3,
        pageable_bytes_per_s=3e9,
        pinned_bytes_per_s=12e9,
    ),
    memory=Memory(main_bytes=4 * GIB),
    device=Device(vram_bytes=24 * GIB, base_bytes=3 * GIB, sample_bytes=0.18 * GIB),
    settings={"workers": 2, "prefetch_factor": 2, "batch_size": 32},
    samples_per_epoch=60_000,
    epochs=30,
    validation_s=15.0,
)

# Few workers fit, and one sample in twenty-five takes eight times as long: deep queues and any order help.
LITTLE_RAM = Surface(
    name="little-ram",
    seed=16,
    sample=SampleCost(cpu_s=0.15, latency_s=0.05, cv=0.3, slow_fraction=0.04, slow_factor=8.0, batch_bytes=24 * MIB),
    loader=replace(_QUEUES, boot_s=0.8, first_batch_s=0.3),
    step=StepCost(base_s=0.03, sample_s=0.02, cv=0.04, first_s=2.0),
    box=Box(cores=16, ram_bytes=32 * GIB, shm_bytes=16 * GIB),
    memory=Memory(main_bytes=5 * GIB, worker_bytes=2.6 * GIB, work_bytes=0.1 * GIB),
    device=Device(vram_bytes=48 * GIB, base_bytes=4 * GIB, sample_bytes=3 * GIB),
    settings={"workers": 2, "prefetch_factor": 2, "batch_size": 2},
    samples_per_epoch=6000,
    epochs=25,
    validation_s=20.0,
)

# The training's own work on the host competes with the workers for four cores.
FOUR_CORES = Surface(
    name="four-cores",
    seed=17,
    sample=SampleCost(cpu_s=0.02, latency_s=0.004, cv=0.4, batch_bytes=2 * MIB),
    loader=replace(_QUEUES, boot_s=0.8, batch_s=0.004),
    step=StepCost(base_s=0.01, sample_s=0.003, cv=0.03, host_s=0.02, host_sample_s=0.001, first_s=1.0),
    box=Box(cores=4, ram_bytes=16 * GIB, shm_bytes=8 * GIB),
    memory=Memory(main_bytes=2 * GIB, worker_bytes=0.4 * GIB),
    device=Device(vram_bytes=12 * GIB, base_bytes=1.5 * GIB, sample_bytes=0.3 * GIB),
    settings={"workers": 2, "prefetch_factor": 2, "batch_size": 8},
    samples_per_epoch=20_000,
    epochs=40,
    validation_s=8.0,
)

# Over after a few dozen batches: what counts is how the workers come back.
SHORT_EPOCHS = Surface(
    name="short-epochs",
    seed=18,
    sample=SampleCost(cpu_s=0.05, cv=0.25, batch_bytes=1 * MIB),
    loader=replace(_QUEUES, fork_s=0.05, boot_s=1.2, first_batch_s=0.4),
    step=StepCost(base_s=0.02, sample_s=0.008, cv=0.03, first_s=2.0),
    memory=Memory(main_bytes=2 * GIB),
    device=Device(vram_bytes=24 * GIB, base_bytes=2 * GIB, sample_bytes=0.5 * GIB),
    settings={"workers": 4, "prefetch_factor": 2, "batch_size": 4},
    samples_per_epoch=160,
    epochs=500,
    validation_s=0.8,
)

# All loading passes through one lock: neither workers nor prefetching can help.
ONE_LOCK = Surface(
    name="one-lock",
    seed=19,
    sample=SampleCost(cpu_s=0.03, cv=0.2, batch_bytes=1 * MIB),
    loader=replace(_QUEUES, boot_s=0.5, serialized=True),
    step=StepCost(base_s=0.02, sample_s=0.004, cv=0.03, first_s=1.0),
    memory=Memory(main_bytes=2 * GIB),
    device=Device(vram_bytes=16 * GIB, base_bytes=2 * GIB, sample_bytes=0.3 * GIB),
    settings={"workers": 4, "prefetch_factor": 2, "batch_size": 4},
    samples_per_epoch=10_000,
    epochs=20,
    validation_s=6.0,
)

SURFACES = (
    SCROLLS,
    SMALL_VOLUMES,
    IMAGES_FAR_AWAY,
    NARROW_MOUNT,
    DEVICE_BOUND,
    LITTLE_RAM,
    FOUR_CORES,
    SHORT_EPOCHS,
    ONE_LOCK,
)

# A machine that others use as well.
SHARED_MACHINE = Noise(launch_sd=0.01, drift_sd=0.015, episode_share=0.05, episode_slowdown=0.08)


def misspecified(surface: Surface) -> Surface:
    """With effects that no model of a loader knows."""
    return replace(surface, unmodelled=Unmodelled(field_sd=0.1, stretch_sd=0.1))
