"""What a simulated training holds at any time, and where it dies of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vtune.execution.engines.simulated.surface import GIB, MIB
from vtune.execution.engines.simulated.training import Training

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    at_s: float
    exit_code: int
    # What it leaves on stderr.
    words: str


class Held:
    """Of the training as far as it has come."""

    def __init__(self, training: Training) -> None:
        surface, settings = training.surface, training.settings
        self._memory = surface.memory
        self._batch_bytes = settings.batch * surface.sample.batch_bytes
        self._worker_bytes = surface.memory.worker_bytes + settings.batch * surface.memory.work_bytes
        self._finished = np.array([one.finished_s for one in training.loads])
        self._delivered = np.array([one.returned_s for one in training.deliveries])
        self._alive = [
            (one.ready_s, math.inf if one.ended_s is None or settings.persistent else one.ended_s, settings.workers)
            for one in (training.passes[:1] if settings.persistent else training.passes)
        ]
        device = surface.device
        self._vram = 0.0 if device is None else device.base_bytes + settings.batch * device.sample_bytes
        self.changes = np.sort(np.concatenate((self._finished, self._delivered)))

    def shm_bytes(self, at: Floats) -> Floats:
        """Batches that lie ready, and the one that the training is at."""
        if not len(self._finished):
            return np.zeros(len(at))
        finished = np.searchsorted(self._finished, at, side="right")
        delivered = np.searchsorted(self._delivered, at, side="right")
        return np.maximum(0, finished - np.maximum(0, delivered - 1)) * self._batch_bytes

    def ram_bytes(self, at: Floats) -> Floats:
        workers = sum((count * ((begin <= at) & (at <= end)) for begin, end, count in self._alive), np.zeros(len(at)))
        return self._memory.main_bytes + workers * self._worker_bytes + self.shm_bytes(at)

    def vram_bytes(self, at: Floats) -> Floats:
        """The allocator keeps what the first step took."""
        begin = self._delivered[0] if len(self._delivered) else math.inf
        return np.where(at >= begin, self._vram, 0.0)

    def ram_over_s(self, limit_bytes: float) -> float | None:
        return _first(self.changes, self.ram_bytes(self.changes) > limit_bytes)

    def shm_over_s(self, limit_bytes: float) -> float | None:
        return _first(self.changes, self.shm_bytes(self.changes) > limit_bytes)

    def vram_over_s(self, limit_bytes: float) -> float | None:
        return float(self._delivered[0]) if len(self._delivered) and self._vram > limit_bytes else None


def death_of(training: Training, held: Held) -> Death | None:
    """By what the machine has; what the user allows is less, and vtune's to watch."""
    surface, size = training.surface, training.settings.batch * training.surface.sample.batch_bytes
    found: list[Death] = []
    device = surface.device
    at_s = held.vram_over_s(device.vram_bytes) if device is not None else None
    if device is not None and at_s is not None:
        wanted = training.settings.batch * device.sample_bytes / MIB
        words = (
            f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {wanted:.2f} MiB. "
            f"GPU 0 has a total capacity of {device.vram_bytes / GIB:.2f} GiB."
        )
        found.append(_died(at_s, "loss.backward()", words))
    at_s = held.ram_over_s(surface.box.ram_bytes)
    if at_s is not None:
        words = f"RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate {size:.0f} bytes."
        found.append(_died(at_s, "for batch in loader:", words))
    at_s = held.shm_over_s(surface.box.shm_bytes)
    if at_s is not None:
        words = f"RuntimeError: unable to allocate shared memory(shm) for file </torch_{training.pid}_1>"
        found.append(_died(at_s, "for batch in loader:", words))
    return min(found, key=lambda one: one.at_s, default=None)


def _died(at_s: float, line: str, words: str) -> Death:
    trace = f'Traceback (most recent call last):\n  File "train.py", line 40, in <module>\n    {line}\n'
    return Death(at_s=at_s, exit_code=1, words=f"{trace}{words}\n")


def _first(times: Floats, over: NDArray[np.bool_]) -> float | None:
    return float(times[over.argmax()]) if over.any() else None
