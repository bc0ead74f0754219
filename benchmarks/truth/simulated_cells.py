"""The simulated trainings that short trials are judged on: workers, queues, costs and their spread, drawn once."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from vtune.execution.engines.simulated.surface import Box, LoaderCost, Noise, SampleCost, StepCost, Surface
from vtune.execution.engines.simulated.surfaces import misspecified

SEED = 20


@dataclass(frozen=True)
class Cell:
    """Costs by batch: the training's step is 1 s, the workers together make `pace` batches meanwhile."""

    number: int
    workers: int
    prefetch: int
    pace: float
    cv: float
    slow: bool
    first_step_s: float
    batch: int
    contended: bool
    every_steps: int | None
    # With what the replay knows nothing of.
    misspecified: bool = False

    @property
    def kind(self) -> str:
        if self.slow:
            return "2 % slow ×10"
        return "CV ≤ 0.25" if self.cv <= 0.25 else "CV 0.5"

    @property
    def surface(self) -> Surface:
        load_s = self.workers / self.pace / (1.18 if self.slow else 1.0)
        shared = max(2.0, self.workers / 2 + 1)
        surface = Surface(
            name=f"cell {self.number}",
            seed=1000 + self.number,
            sample=SampleCost(
                # Half of it is waiting, half competes for cores.
                cpu_s=load_s / 2 / self.batch,
                latency_s=load_s / 2 / self.batch,
                # The two halves vary apart, and a batch is a sum of samples: by batch the spread is the cell's.
                cv=self.cv * math.sqrt(2 * self.batch),
                slow_fraction=0.02 / self.batch if self.slow else 0.0,
                slow_factor=1 + 9 * self.batch if self.slow else 1.0,
                batch_bytes=1e5,
            ),
            loader=LoaderCost(fork_s=0.01, boot_s=0.3, first_batch_s=load_s / 2, dispatch_s=0.005, receive_s=0.008),
            step=StepCost(
                base_s=0.9,
                host_s=0.1,
                cv=0.03,
                first_s=self.first_step_s,
                every_steps=self.every_steps,
                every_s=2.0 if self.every_steps else 0.0,
            ),
            box=Box(cores=shared if self.contended else 64.0),
            noise=Noise(launch_sd=0.01),
            settings={
                "workers": self.workers,
                "prefetch_factor": self.prefetch,
                "batch_size": self.batch,
            },
        )
        return misspecified(surface) if self.misspecified else surface


def cells(count: int) -> list[Cell]:
    rng = np.random.default_rng(SEED)
    kinds = [(cv, False) for cv in (0.05, 0.05, 0.1, 0.1, 0.25, 0.25, 0.25, 0.5, 0.5)] + [(0.1, True)]
    return [
        Cell(
            number=number,
            workers=int(rng.choice([1, 2, 4, 8, 16])),
            prefetch=int(rng.choice([1, 2, 4, 8])),
            pace=float(rng.choice([0.5, 0.8, 1.0, 1.25, 2.0])),
            cv=kinds[number % len(kinds)][0],
            slow=kinds[number % len(kinds)][1],
            first_step_s=float(rng.choice([0.0, 5.0, 60.0])),
            batch=int(rng.choice([1, 4])),
            contended=bool(rng.random() < 1 / 3),
            every_steps=10 if rng.random() < 0.2 else None,
        )
        for number in range(count)
    ]


def scaled(surface: Surface, factor: float) -> Surface:
    """The same training with all that it does taking so much longer."""
    sample, loader, step = surface.sample, surface.loader, surface.step
    return replace(
        surface,
        sample=replace(sample, cpu_s=factor * sample.cpu_s, latency_s=factor * sample.latency_s),
        loader=replace(loader, dispatch_s=factor * loader.dispatch_s, receive_s=factor * loader.receive_s),
        step=replace(step, base_s=factor * step.base_s, host_s=factor * step.host_s, every_s=factor * step.every_s),
    )
