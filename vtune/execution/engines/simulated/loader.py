"""A data loader, event by event, by the rules of torch's own: who gets the next index, which batch is taken next."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import cycle, repeat
from typing import Any

from vtune.execution.engines.simulated.events import Process, Queue
from vtune.execution.engines.simulated.site import Cost, Site
from vtune.execution.engines.simulated.surface import LoaderCost, Settings, Surface

# Joining the workers of an iterator that is not kept.
JOIN_S = 0.005


@dataclass(frozen=True, slots=True)
class Load:
    pid: int
    worker: int
    resume: int
    index: int
    started_s: float
    finished_s: float
    cpu_s: float
    queued_s: float
    samples: int
    read_bytes: float


@dataclass(slots=True)
class Pass:
    number: int
    iterator: int
    resume: int
    begun_s: float
    ready_s: float
    length: int | None
    worker_pids: tuple[int, ...]
    # How many batches it gave, once it has ended, and when.
    batches: int | None = None
    ended_s: float | None = None


@dataclass(slots=True)
class Worker:
    number: int
    pid: int
    tasks: Queue
    resume: int = 0
    # Batches that were ordered of it and not taken from it yet.
    assigned: int = 0


# A batch on its way: its position in the pass, its samples, what they cost.
Task = tuple[int, int, Cost]


class Loader:
    """What stays from pass to pass."""

    def __init__(self, surface: Surface, settings: Settings, site: Site, first_pid: int) -> None:
        self.surface, self.settings, self.site = surface, settings, site
        self.costs: LoaderCost = surface.loader
        self.loads: list[Load] = []
        self.passes: list[Pass] = []
        self.workers: list[Worker] = []
        # Processor time of the training's own process, in all that it does.
        self.own_cpu_s = 0.0
        self._next_pid = first_pid

    def fork(self, number: int) -> Worker:
        worker = Worker(number, self._next_pid, Queue())
        self._next_pid += 1
        return worker


class Walk:
    """One pass over the loader, from the making (or resetting) of its iterator to its end."""

    def __init__(self, loader: Loader) -> None:
        self._loader, self._settings, self._costs = loader, loader.settings, loader.costs
        self._site, self._world = loader.site, loader.site.world
        self.number = len(loader.passes)
        self._total = loader.surface.samples_per_epoch
        self._results, self._pinned = Queue(), Queue()
        pins = self._settings.pin and self._settings.workers > 0 and self._costs.pin_bytes_per_s is not None
        self._source = self._pinned if pins else self._results
        self._sent = self._expected = 0
        # Position → the worker that has it, its samples; and those that came before their turn.
        self._assigned: dict[int, Worker] = {}
        self._samples: dict[int, int] = {}
        self._stored: set[int] = set()
        self._workers: list[Worker] = []
        self._turn: Iterator[Worker] = cycle(())

    def begin(self) -> Process:
        loader, settings, begun_s = self._loader, self._settings, self._world.now_s
        kept = settings.persistent and bool(loader.workers)
        if not kept:
            loader.workers = []
            for number in range(settings.workers):
                if self._costs.fork_s:
                    yield (self._site.cores, self._costs.fork_s, 1.0)
                loader.workers.append(loader.fork(number))
        self._workers, self._turn = loader.workers, cycle(loader.workers)
        for worker in self._workers:
            worker.assigned = 0
            if kept:
                worker.resume += 1
                self._world.put(worker.tasks, self)
            else:
                self._world.start(self._serve(worker))
        if self._source is self._pinned:
            self._world.start(self._pin())
        for _ in range(settings.stock):
            self._send()
        size, total = settings.batch, self._total
        loader.passes.append(
            Pass(
                number=self.number,
                iterator=0 if settings.persistent else self.number,
                resume=self.number if settings.persistent else 0,
                begun_s=begun_s,
                ready_s=self._world.now_s,
                length=None if total is None else -(-total // size),
                worker_pids=tuple(worker.pid for worker in self._workers),
            )
        )

    def next(self) -> Generator[Any, Any, tuple[int, int] | None]:
        """The position and the samples of the next batch; None when there is none."""
        if not self._settings.workers:
            task = self._task()
            if task is None:
                return None
            extra_s = self._costs.first_batch_s if self._sent == 1 else 0.0
            served_s, _ = yield from self._site.load(task[2], task[1], extra_s)
            self._loader.own_cpu_s += served_s
            return task[0], task[1]
        while True:
            while self._expected < self._sent and self._expected not in self._assigned:
                self._expected += 1
            if self._expected >= self._sent:
                return None
            if self._expected in self._stored:
                self._stored.discard(self._expected)
                return self._take(self._expected)
            index = yield self._source
            if self._costs.receive_s:
                yield (self._site.cores, self._costs.receive_s * next(self._site.overhead), 1.0)
            if index == self._expected or not self._settings.in_order:
                return self._take(index)
            self._stored.add(index)

    def end(self) -> Process:
        told = self._loader.passes[self.number]
        told.batches, told.ended_s = self._sent, self._world.now_s
        if not self._settings.persistent and self._workers:
            for worker in self._workers:
                self._world.put(worker.tasks, None)
            yield JOIN_S

    def _take(self, index: int) -> tuple[int, int]:
        """A batch goes to the training; only then the next index is sent."""
        self._assigned.pop(index).assigned -= 1
        if index == self._expected:
            self._expected += 1
        self._send()
        return index, self._samples.pop(index)

    def _send(self) -> None:
        for worker in (next(self._turn) for _ in repeat(None, len(self._workers))):
            # In order, strictly in turn; without order, to the next one that has room.
            if self._settings.in_order or worker.assigned < self._settings.prefetch:
                task = self._task()
                if task is not None:
                    worker.assigned += 1
                    self._assigned[task[0]], self._samples[task[0]] = worker, task[1]
                    self._world.put(worker.tasks, task)
                return

    def _task(self) -> Task | None:
        size, index = self._settings.batch, self._sent
        if self._total is not None:
            size = min(size, self._total - index * size)
            if size <= 0:
                return None
        self._sent += 1
        return index, size, self._site.samples.take(size)

    def _serve(self, worker: Worker) -> Process:
        """A worker's life, over all the passes that it is kept for."""
        site, world, costs, loads = self._site, self._world, self._costs, self._loader.loads
        results, first_s = self._results, costs.first_batch_s
        if costs.boot_s:
            yield (site.cores, costs.boot_s, 1.0)
        while True:
            task = yield worker.tasks
            if task is None:
                return
            if isinstance(task, Walk):
                results = task._results
                continue
            if costs.dispatch_s:
                yield costs.dispatch_s * next(site.overhead) / site.pace
            index, samples, cost = task
            started_s = world.now_s
            served_s, queued_s = yield from site.load(cost, samples, first_s)
            first_s = 0.0
            who = (worker.pid, worker.number, worker.resume)
            loads.append(Load(*who, index, started_s, world.now_s, served_s, queued_s, samples, cost[2]))
            world.put(results, index)

    def _pin(self) -> Process:
        """The thread that copies each batch to pinned memory, one after the other."""
        pace, size = self._costs.pin_bytes_per_s, self._loader.surface.sample.batch_bytes
        while pace:
            index = yield self._results
            yield (self._site.cores, self._samples.get(index, 0) * size / pace, 1.0)
            self._world.put(self._pinned, index)
