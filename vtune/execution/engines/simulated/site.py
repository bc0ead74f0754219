"""Where a simulated training runs: its cores, its storage, the samples that it asks for, and the pace of the moment."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import Any

from vtune.execution.engines.simulated.events import Process, Queue, Server, World, cores, mount
from vtune.execution.engines.simulated.launch import Launch
from vtune.execution.engines.simulated.samples import Samples, factors
from vtune.execution.engines.simulated.surface import Surface
from vtune.execution.engines.simulated.weather import PIECE_S

# Seconds of a core, seconds of latency, bytes to read: of all samples of a batch.
Cost = tuple[float, float, float]
# A batch's samples are made one after the other; more turns than this between waiting and working change nothing.
MOST_PARTS = 4

# Seconds on a core, and seconds that were spent waiting for one.
Served = tuple[float, float]


class Site:
    def __init__(self, surface: Surface, launch: Launch, started_s: float) -> None:
        box = surface.box
        self.cores = Server(cores(box.cores, box.threads_by_core, box.all_threads_gain), started_s)
        self._mount = Server(mount(box.storage_bytes_per_s, box.stream_bytes_per_s), started_s)
        self._mount_counts = box.storage_bytes_per_s is not None or box.stream_bytes_per_s is not None
        self.world = World(started_s, (self.cores, self._mount))
        self.samples = Samples(
            surface.sample,
            box.cached_fraction,
            launch.order_rng,
            surface.unmodelled,
            surface.unsteady,
            surface.samples_per_epoch,
        )
        self.overhead: Iterator[float] = factors(launch.rng, surface.loader.overhead_cv)
        self._batch_s = surface.loader.batch_s
        self._lock: Queue | None = None
        if surface.loader.serialized:
            self._lock = Queue()
            self._lock.items.append(None)
        self._launch = launch
        self._started_s, self._unsteady = started_s, surface.unsteady
        self.pace = 1.0
        self._set_pace()
        if launch.weather.changes or surface.unsteady.slows:
            self.world.start(self._follow_weather())

    def load(self, cost: Cost, samples: int, extra_s: float = 0.0) -> Generator[Any, Any, Served]:
        """One batch, wherever it is made: sample after sample is waited for and then worked on."""
        cpu_s, latency_s, read_bytes = cost
        parts = max(1, min(MOST_PARTS, samples))
        world, cores = self.world, self.cores
        if not self._mount_counts:
            read_bytes = 0.0
        served_s = queued_s = 0.0
        if self._lock is not None:
            yield self._lock
        for part in range(parts):
            if latency_s:
                yield latency_s / parts / self.pace
            if read_bytes:
                yield (self._mount, read_bytes / parts, 1.0)
            work_s = cpu_s / parts + (self._batch_s + extra_s if part == 0 else 0.0)
            if work_s > 0:
                begun_s = world.now_s
                own_s = yield (cores, work_s, 1.0)
                served_s += own_s
                queued_s += max(0.0, world.now_s - begun_s - own_s)
        if self._lock is not None:
            world.put(self._lock, None)
        return served_s, queued_s

    def _follow_weather(self) -> Process:
        while True:
            # A hair beyond the border: rounding must not leave us before it.
            yield PIECE_S - math.fmod(self.world.now_s, PIECE_S) + 1e-6
            self._set_pace()

    def _left(self, ran_s: float) -> float:
        """Of the pace, on a machine that slows down."""
        return 1 - self._unsteady.slows * min(1.0, ran_s / self._unsteady.slows_over_s)

    def _set_pace(self) -> None:
        now_s = self.world.now_s
        self.pace = self._launch.pace_at(now_s) * self._left(now_s - self._started_s)
        self.cores.set_pace(now_s, self.pace)
        self._mount.set_pace(now_s, self.pace)
