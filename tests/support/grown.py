"""Long journals: records of a few simulated trials, over and over with other settings and other numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from vtune.domain.effects import Scalar
from vtune.domain.record import TrialRecord


def grown(few: Sequence[TrialRecord], count: int, *, seed: int = 0) -> list[TrialRecord]:
    """The first ones as they are; the others with settings of their own, nearly all of them different."""
    rng = random.Random(seed)
    return [few[at] if at < len(few) else _like(rng.choice(few), at + 1, rng) for at in range(count)]


def _like(record: TrialRecord, trial: int, rng: random.Random) -> TrialRecord:
    measured = record.measurement
    turned: dict[str, Scalar] = {
        "workers": rng.randint(1, 24),
        "batch_size": rng.randint(1, 48),
        "prefetch_factor": rng.randint(1, 8),
        "persistent_workers": rng.random() < 0.5,
        "pin_memory": rng.random() < 0.5,
    }
    batch, before = turned["batch_size"], measured.effective_settings.get("batch_size")
    assert isinstance(batch, int)
    times = batch / before if isinstance(before, int) else 1.0
    luck = rng.lognormvariate(0.0, 0.3)
    rate, interval = measured.samples_per_s, measured.samples_per_s_ci95
    worker, training = measured.worker_cost, measured.training_cost
    measured = replace(
        measured,
        samples_per_s=rate and rate * luck,
        samples_per_s_ci95=interval and (interval[0] * luck, interval[1] * luck),
        samples_per_s_whole_run=measured.samples_per_s_whole_run and measured.samples_per_s_whole_run * luck,
        effective_settings={**measured.effective_settings, **turned} if measured.effective_settings else {},
        effective_batch=batch if measured.effective_batch else None,
        worker_cost=worker and replace(worker, batch_s=worker.batch_s * times / luck),
        training_cost=training and replace(training, batch_s=training.batch_s * times / luck),
        ram_peak_bytes=measured.ram_peak_bytes and int(measured.ram_peak_bytes * (0.5 + 0.5 * times**0.5)),
        vram_peak_bytes=measured.vram_peak_bytes and int(measured.vram_peak_bytes * (0.5 + 0.5 * times)),
        gpus=tuple(
            replace(gpu, vram_peak_bytes=gpu.vram_peak_bytes and int(gpu.vram_peak_bytes * (0.5 + 0.5 * times)))
            for gpu in measured.gpus
        ),
    )
    return replace(
        record,
        trial=trial,
        reason="made up",
        settings={**record.settings, **turned},
        asked=turned,
        seconds=record.seconds * luck,
        measurement=measured,
    )
