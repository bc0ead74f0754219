"""The simulated trainings that searches are judged on: what each runs with, its limits, and all that may be turned."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment, KnobBinding, Limit, Limits, PlannedRun, Window, Workload
from vtune.domain.machine import Machine
from vtune.execution.engines.simulated.engine import machine_of
from vtune.execution.engines.simulated.surface import (
    MIB,
    Box,
    Device,
    LoaderCost,
    Memory,
    SampleCost,
    StepCost,
    Surface,
    settings_of,
)
from vtune.execution.engines.simulated.surfaces import NARROW_MOUNT, SHARED_MACHINE, SURFACES, misspecified
from vtune.knobs.registry import knob_named
from vtune.knobs.values import values_of

Asked = Mapping[str, Scalar]
GIB = 1024 * MIB
USUAL = Limits(ram=Limit(fraction=0.6, text="60%"), vram=Limit(fraction=0.95, text="95%"))
# Of the user's own batch: freed, or there would be nothing to search but the loader.
BATCHES = (1, 2, 4, 8)
# As many as most trials come to by the usual 50 to 100, in one look instead of several; none is cut by the clock.
WINDOW = Window(steps=100, max_steps=100, trial_time_s=1e6, startup_time_s=1e6)
# The training's own names for knobs that it names otherwise.
KEYS = {"batch_size": "train_batch_size"}

# docs/rehearsal.md in figures: what its file says, without what a worker keeps of each sample.
REHEARSAL = Surface(
    name="rehearsal",
    seed=21,
    sample=SampleCost(latency_s=0.06, cv=0.12, batch_bytes=0.1 * MIB),
    loader=LoaderCost(fork_s=0.02, boot_s=0.4, batch_s=0.1, dispatch_s=0.001, receive_s=0.001),
    step=StepCost(base_s=0.008, sample_s=0.006, host_s=0.001, every_steps=8, every_s=0.012),
    box=Box(cores=12, ram_bytes=24 * 2**30, shm_bytes=2**30),
    memory=Memory(main_bytes=270 * MIB, worker_bytes=79 * MIB),
    device=Device(name="Emulated A100", vram_bytes=800 * 10**6, base_bytes=200e6, sample_bytes=270e6),
    settings={"workers": 1, "prefetch_factor": 1, "batch_size": 1},
    samples_per_epoch=4000,
    epochs=32,
    startup_s=3.0,
)
ITS_LIMITS = Limits(ram=Limit(bytes=850 * 10**6, text="850MB"), vram=Limit(fraction=0.95, text="95%"))

# Twice the own batch is slower, four times of it is the best, eight times is slower again: what climbs stops too early.
BATCH_CLIFFS = Surface(
    name="batch-cliffs",
    seed=22,
    sample=SampleCost(cpu_s=0.015, latency_s=0.003, cv=0.25, batch_bytes=1 * MIB),
    loader=LoaderCost(boot_s=0.6, batch_s=0.004, dispatch_s=0.0005, receive_s=0.0008),
    step=StepCost(base_s=0.03, sample_s=0.004, cliffs=((8, 1.6), (32, 1.3)), cv=0.03, first_s=2.0),
    box=Box(cores=8, ram_bytes=32 * GIB, shm_bytes=16 * GIB),
    memory=Memory(main_bytes=2 * GIB, worker_bytes=0.5 * GIB),
    device=Device(vram_bytes=24 * GIB, base_bytes=2 * GIB, sample_bytes=0.5 * GIB),
    settings={"workers": 1, "prefetch_factor": 2, "batch_size": 4},
    samples_per_epoch=10_000,
    epochs=30,
    validation_s=5.0,
)

# With the workers that its author left it, nothing is to be had.
FROM_ONE_WORKER = replace(NARROW_MOUNT, settings={**NARROW_MOUNT.settings, "workers": 1})


@dataclass(frozen=True, kw_only=True)
class Training:
    surface: Surface
    limits: Limits = USUAL
    is_misspecified: bool = False

    @property
    def name(self) -> str:
        return f"{self.surface.name}{' (misspecified)' if self.is_misspecified else ''}"

    @cached_property
    def machine(self) -> Machine:
        return machine_of(self.surface)

    @property
    def pinning_matters(self) -> bool:
        costs = (self.surface.loader.pin_bytes_per_s, self.surface.step.pinned_bytes_per_s)
        return any(one is not None for one in costs)

    @cached_property
    def experiment(self) -> Experiment:
        """With a config that names what the surface runs with, so that each knob has a way that needs no scout."""
        surface = self.surface
        named = {"accumulate_steps": 1, "persistent_workers": False, "pin_memory": False, **surface.settings}
        own = surface.settings["batch_size"]
        assert isinstance(own, int)
        knobs = [KnobBinding(name="batch_size", values=tuple(own * times for times in BATCHES))]
        if not self.pinning_matters:
            # Nothing to be found there, and twice the settings whose truth would have to be known.
            knobs.append(KnobBinding(name="pin_memory", values=(False,)))
        return Experiment(
            study=surface.name,
            workload=Workload(
                command=("python", "train.py", "{config}"),
                cwd=Path("."),
                config={"training": {KEYS.get(name, name): value for name, value in named.items()}},
            ),
            limits=self.limits,
            window=WINDOW,
            planned_run=PlannedRun(epochs=surface.epochs),
            knobs=tuple(knobs),
        )

    @cached_property
    def every(self) -> tuple[dict[str, Scalar], ...]:
        """All that may be asked for, in full; without workers, what belongs to workers is one. The own come first."""
        knobs = ("workers", "batch_size", "prefetch_factor", "persistent_workers", "pin_memory")
        values = [values_of(knob_named(knob), self.machine, self.experiment) for knob in knobs]
        own = {
            knob: {"persistent_workers": False, "pin_memory": False, **self.surface.settings}[knob] for knob in knobs
        }
        found = {}
        for point in [tuple(own.values()), *itertools.product(*values)]:
            settings = dict(zip(knobs, point, strict=True))
            if not settings["workers"]:
                settings.update(prefetch_factor=own["prefetch_factor"], persistent_workers=False, pin_memory=False)
            found.setdefault(settings_of(self.surface, settings), settings)
        return tuple(found.values())

    def asked_for(self, settings: Asked) -> dict[str, Scalar]:
        """Without what the training has anyway."""
        own = {"persistent_workers": False, "pin_memory": False, **self.surface.settings}
        return {knob: value for knob, value in settings.items() if own.get(knob) != value}


def trainings(*, is_misspecified: bool) -> list[Training]:
    surfaces = [one if one is not NARROW_MOUNT else FROM_ONE_WORKER for one in (*SURFACES, BATCH_CLIFFS)]
    every = [*((one, USUAL) for one in surfaces), (REHEARSAL, ITS_LIMITS)]
    noisy = [(replace(surface, noise=SHARED_MACHINE), limits) for surface, limits in every]
    return [
        Training(
            surface=misspecified(surface) if is_misspecified else surface,
            limits=limits,
            is_misspecified=is_misspecified,
        )
        for surface, limits in noisy
    ]
