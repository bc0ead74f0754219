"""A world of processes in virtual time: generators that wait for a while, for a queue, or for their share of a server.

What a process yields says what it waits for: seconds (a float), a Queue (it is resumed with what was put there), or
(server, work, weight) (it is resumed with the time that it was really served, as a core's clock counts it).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator
from heapq import heappop, heappush
from typing import Any

Process = Generator[Any, Any, None]
# Progress of each job by second at this load, and the share of the time in which it is really on a core.
Speed = Callable[[float], tuple[float, float]]


class Queue:
    __slots__ = ("items", "waiting")

    def __init__(self) -> None:
        self.items: deque[Any] = deque()
        self.waiting: deque[Process] = deque()


class Server:
    """Processor sharing: all jobs progress alike, so each is done when the common progress has grown by its work."""

    def __init__(self, speed: Speed, now_s: float) -> None:
        self._speed = speed
        self._pace = 1.0
        self._at_s = now_s
        self._load = 0.0
        self._progress = self._served_s = 0.0
        self._rate, self._share = 0.0, 1.0
        # Progress at its end, order, weight, served at its begin, whose it is.
        self._jobs: list[tuple[float, int, float, float, Process]] = []
        self._order = 0
        self.next_s = math.inf

    def set_pace(self, now_s: float, pace: float) -> None:
        self._advance(now_s)
        self._pace = pace
        self._reckon()

    def add(self, now_s: float, work_s: float, weight: float, process: Process) -> None:
        self._advance(now_s)
        self._order += 1
        heappush(self._jobs, (self._progress + work_s, self._order, weight, self._served_s, process))
        self._load += weight
        self._reckon()

    def pop(self) -> tuple[Process, float]:
        """At `next_s`: the job that is done, and how long it was served."""
        self._advance(self.next_s)
        progress, _, weight, served_s, process = heappop(self._jobs)
        # Exactly there, whatever rounding made of it: the next one's time is counted from here.
        self._progress = progress
        self._load = self._load - weight if self._jobs else 0.0
        self._reckon()
        return process, self._served_s - served_s

    def _advance(self, now_s: float) -> None:
        passed_s = now_s - self._at_s
        self._progress += passed_s * self._rate
        self._served_s += passed_s * self._share
        self._at_s = now_s

    def _reckon(self) -> None:
        if not self._jobs:
            self._rate, self._share, self.next_s = 0.0, 1.0, math.inf
            return
        speed, self._share = self._speed(self._load)
        self._rate = speed * self._pace
        self.next_s = self._at_s + max(0.0, self._jobs[0][0] - self._progress) / self._rate


class World:
    def __init__(self, now_s: float, servers: tuple[Server, ...]) -> None:
        self.now_s = now_s
        self._servers = servers
        self._due: list[tuple[float, int, Process, Any]] = []
        self._order = 0

    def start(self, process: Process) -> None:
        self._resume_at(self.now_s, process, None)

    def put(self, queue: Queue, item: Any) -> None:
        if queue.waiting:
            self._resume_at(self.now_s, queue.waiting.popleft(), item)
        else:
            queue.items.append(item)

    def run(self, done: Callable[[], bool], until_s: float = math.inf) -> None:
        """Until it is done, nothing is left to happen, or that time has come; may be called again to go on."""
        while not done():
            server = min(self._servers, key=lambda one: one.next_s)
            timed_s = self._due[0][0] if self._due else math.inf
            next_s = min(timed_s, server.next_s)
            if next_s > until_s or next_s == math.inf:
                return
            self.now_s = next_s
            if timed_s <= server.next_s:
                _, _, process, value = heappop(self._due)
            else:
                process, value = server.pop()
            self._go_on(process, value)

    def _go_on(self, process: Process, value: Any) -> None:
        try:
            while True:
                wanted = process.send(value)
                if type(wanted) is float:
                    self._resume_at(self.now_s + wanted, process, None)
                    return
                if type(wanted) is Queue:
                    if not wanted.items:
                        wanted.waiting.append(process)
                        return
                    value = wanted.items.popleft()
                    continue
                server, work_s, weight = wanted
                server.add(self.now_s, work_s, weight, process)
                return
        except StopIteration:
            return

    def _resume_at(self, t_s: float, process: Process, value: Any) -> None:
        self._order += 1
        heappush(self._due, (t_s, self._order, process, value))


def cores(count: float, threads_by_core: int = 1, all_threads_gain: float = 1.0) -> Speed:
    """Each job has a core of its own as long as there are enough; then hardware threads, which are less than a core
    each; then they take turns."""
    threads = count * max(1, threads_by_core)
    most = count * max(1.0, all_threads_gain if threads > count else 1.0)

    def speed(load: float) -> tuple[float, float]:
        if load <= count:
            return 1.0, 1.0
        if load >= threads:
            return most / load, threads / load
        return (count + (load - count) * (most - count) / (threads - count)) / load, 1.0

    return speed


def mount(total_by_s: float | None, stream_by_s: float | None) -> Speed:
    """Work is in bytes: a stream has its own pace until all of them together have filled the line."""
    stream = stream_by_s or total_by_s or math.inf

    def speed(load: float) -> tuple[float, float]:
        return min(stream, total_by_s / load if total_by_s else math.inf), 1.0

    return speed
