"""What settings really come to: long simulations without noise, each once.

All settings see the very same samples, whatever their batch: else the luck of the draw would decide what is within 2 %.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from search.cache import Lines, code_hash, own_code
from search.trainings import Asked, Training
from vtune.execution.engines.simulated.launch import field_at
from vtune.execution.engines.simulated.memory import Held
from vtune.execution.engines.simulated.surface import Settings, settings_of
from vtune.execution.engines.simulated.truth import ALL_STEPS, quiet_training

MADE_BY = ("vtune.execution.engines.simulated.training", "vtune.execution.engines.simulated.memory")
# Whole epochs: of a part of one, deep queues and locks tell another rate. Where they are short, so many that there are
# enough batches of the user's own size.
EPOCHS, LEAST_BATCHES = 3, 3000
# Of an epoch, where only the harness is tried.
QUICK_BATCHES = 40
# A run may pass its limit by as much as two looks at memory differ.
SLACK = 1.01


@dataclass(frozen=True, kw_only=True)
class Truth:
    # None of what is not run, for it cannot fit.
    samples_per_s: float | None
    ram_bytes: float
    vram_bytes: float
    shm_bytes: float


class Truths:
    def __init__(self, training: Training, folder: Path, *, quick: bool = False) -> None:
        self._training, self._quick = training, quick
        unmodelled = training.surface.unmodelled
        # The field is a factor of the pace of all: it need not be simulated.
        even = None if unmodelled is None else replace(unmodelled, field_sd=0.0)
        self._even = replace(training.surface, unmodelled=even)
        self.code = code_hash(
            MADE_BY, repr((self._even, training.limits)), own_code("true"), str(quick), stages=("execution",)
        )
        self._kept = Lines(folder / "truth" / f"{training.name}-{self.code}.jsonl")
        self._known: dict[Settings, Truth] = {}
        self._best: float | None = None

    def of(self, asked: Asked) -> Truth:
        settings = settings_of(self._training.surface, asked)
        if settings not in self._known:
            alike = settings if self._training.pinning_matters else replace(settings, pin=False)
            key = repr(dataclasses.astuple(alike))
            if key not in self._kept:
                self._kept.put(key, dataclasses.asdict(self._simulated(alike)))
            truth = Truth(**self._kept.get(key))
            rate, factor = truth.samples_per_s, field_at(self._training.surface, settings)
            self._known[settings] = replace(truth, samples_per_s=None if rate is None else rate * factor)
        return self._known[settings]

    def fits(self, truth: Truth, *, slack: float = 1.0) -> bool:
        box, device, limits = self._training.surface.box, self._training.surface.device, self._training.limits
        ram = limits.ram.resolve(box.ram_bytes) if limits.ram else None
        total = device.vram_bytes if device is not None else None
        vram = limits.vram.resolve(total) if limits.vram else None
        return (
            truth.ram_bytes <= slack * min(box.ram_bytes, ram or box.ram_bytes)
            and truth.shm_bytes <= box.shm_bytes
            and (total is None or truth.vram_bytes <= min(total, slack * (vram or total)))
        )

    def best(self) -> float:
        """Of all settings that fit."""
        if self._best is None:
            found = [truth for asked in self._training.every if self.fits(truth := self.of(asked))]
            self._best = max(one.samples_per_s or 0.0 for one in found)
        return self._best

    def regret(self, asked: Asked) -> float:
        """1 for what does not come to its end under the limits."""
        truth = self.of(asked)
        if truth.samples_per_s is None or not self.fits(truth, slack=SLACK):
            return 1.0
        return max(0.0, 1 - truth.samples_per_s / self.best())

    def _simulated(self, settings: Settings) -> Truth:
        surface, memory, device = self._even, self._even.memory, self._even.device
        vram = 0.0 if device is None else device.base_bytes + settings.batch * device.sample_bytes
        # With nothing in the queues.
        least = memory.main_bytes + settings.workers * (memory.worker_bytes + settings.batch * memory.work_bytes)
        found = Truth(samples_per_s=None, ram_bytes=least, vram_bytes=vram, shm_bytes=0.0)
        if not self.fits(found, slack=SLACK):
            return found
        own, epoch = settings_of(surface, {}).batch, surface.samples_per_epoch
        assert epoch is not None
        if self._quick:
            epoch = min(epoch, QUICK_BATCHES * own)
        epochs = EPOCHS if self._quick else max(EPOCHS, LEAST_BATCHES * own // epoch)
        training = quiet_training(replace(surface, samples_per_epoch=epoch, epochs=epochs), settings)
        training.go_on(ALL_STEPS)
        held = Held(training)
        ends = [one.ended_s for one in training.passes if one.ended_s is not None]
        first_s, epoch_s = ends[0] - training.started_s, (ends[-1] - ends[0]) / (len(ends) - 1)
        whole = epoch * surface.epochs / (first_s + (surface.epochs - 1) * epoch_s)
        return Truth(
            samples_per_s=whole,
            ram_bytes=float(np.max(held.ram_bytes(held.changes))),
            vram_bytes=vram,
            shm_bytes=float(np.max(held.shm_bytes(held.changes))),
        )
