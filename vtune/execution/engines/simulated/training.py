"""A training fed by a loader: it waits for a batch, steps, and walks again at the end of an epoch.

It knows nothing of the analysis and shares no formula with it: it is what the analysis is judged by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vtune.execution.engines.simulated.events import Process
from vtune.execution.engines.simulated.launch import Launch
from vtune.execution.engines.simulated.loader import Load, Loader, Pass, Walk
from vtune.execution.engines.simulated.samples import factors
from vtune.execution.engines.simulated.site import Site
from vtune.execution.engines.simulated.spells import spells
from vtune.execution.engines.simulated.surface import Settings, Surface

# Of a step's time, what comes before its backward pass.
FORWARD_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Delivery:
    pass_number: int
    index: int
    asked_s: float
    returned_s: float
    samples: int


@dataclass(frozen=True, slots=True)
class Step:
    number: int
    ended_s: float
    # When the batch had come to the device, and how long the device was busy with it.
    on_device_s: float
    device_busy_s: float


class Training:
    """Goes on as far as it is asked to; what has happened so far stands in the lists."""

    def __init__(self, surface: Surface, settings: Settings, launch: Launch, *, started_s: float, pid: int) -> None:
        self.surface, self.settings, self.started_s, self.pid = surface, settings, started_s, pid
        self.weather = launch.weather
        self.deliveries: list[Delivery] = []
        self.steps: list[Step] = []
        # One of each batch, from when to when.
        self.backwards: list[tuple[float, float]] = []
        # Processor time of the training's own process, as it grew.
        self.own_cpu_s: list[tuple[float, float]] = [(started_s, 0.0)]
        self.over = False
        self._site = Site(surface, launch, started_s)
        self._world = self._site.world
        self._loader = Loader(surface, settings, self._site, pid + 1)
        self._step_noise = factors(launch.rng, surface.step.cv)
        self._batches = 0
        self._spells = spells(surface.unsteady, launch.rng.spawn(1)[0])
        self._world.start(self._train())

    @property
    def now_s(self) -> float:
        return self._world.now_s

    @property
    def loads(self) -> list[Load]:
        return self._loader.loads

    @property
    def passes(self) -> list[Pass]:
        return self._loader.passes

    def go_on(self, steps: int, until_s: float = math.inf) -> None:
        """Until so many optimizer steps have ended, that time has come, or the training is over."""
        self._world.run(lambda: self.over or len(self.steps) >= steps, until_s)

    def _train(self) -> Process:
        surface = self.surface
        yield from self._compute(surface.startup_s)
        for epoch in range(surface.epochs):
            if epoch and surface.validation_s:
                yield surface.validation_s / self._site.pace
            walk = Walk(self._loader)
            yield from walk.begin()
            while True:
                asked_s = self._world.now_s
                got = yield from walk.next()
                if got is None:
                    break
                index, samples = got
                self.deliveries.append(Delivery(walk.number, index, asked_s, self._world.now_s, samples))
                yield from self._consume(samples)
            yield from walk.end()
        self.over = True

    def _consume(self, samples: int) -> Process:
        step, world = self.surface.step, self._world
        self._batches += 1
        number, ends = len(self.steps) + 1, self._batches % self.settings.accumulate == 0
        begun_s, moving_s = world.now_s, self._transfer_s(samples)
        if moving_s:
            yield moving_s
        host_s = (step.host_s + step.host_sample_s * samples) * next(self._step_noise)
        yield from self._compute(host_s * FORWARD_SHARE, step.host_threads)
        backward_s = world.now_s
        yield from self._compute(host_s * (1 - FORWARD_SHARE), step.host_threads)
        device_s = self._device_s(samples) * next(self._step_noise)
        if self._batches == 1:
            device_s += step.first_s
        elif number <= 1 + step.warm_up_steps:
            device_s += step.warm_up_s
        factor, stop_s = next(self._spells)
        device_s = device_s * factor / self._site.pace + stop_s
        if device_s:
            yield device_s
        self.backwards.append((backward_s, world.now_s))
        if not ends:
            return
        if step.every_steps and number % step.every_steps == 0:
            yield from self._compute(step.every_s)
        self.steps.append(Step(number, world.now_s, begun_s, moving_s + device_s))
        self.own_cpu_s.append((world.now_s, self._loader.own_cpu_s))

    def _compute(self, work_s: float, threads: float = 1.0) -> Process:
        if work_s > 0:
            served_s = yield (self._site.cores, work_s, threads)
            self._loader.own_cpu_s += threads * served_s

    def _device_s(self, samples: int) -> float:
        step = self.surface.step
        seconds = step.base_s + step.sample_s * samples
        for batch, factor in step.cliffs:
            if self.settings.batch >= batch:
                seconds *= factor
        return seconds

    def _transfer_s(self, samples: int) -> float:
        step = self.surface.step
        pace = step.pinned_bytes_per_s if self.settings.pin else step.pageable_bytes_per_s
        return samples * self.surface.sample.batch_bytes / pace / self._site.pace if pace else 0.0
