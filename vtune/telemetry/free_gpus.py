"""The devices as they are before anything of ours runs."""

from __future__ import annotations

import time

from vtune.domain.machine import FreeGpu
from vtune.telemetry.gpus import GpuSampler

# One look tells what memory is taken; the time that it was busy takes two.
LOOK_S = 0.6


def free_gpus() -> tuple[FreeGpu, ...]:
    with GpuSampler() as sampler:
        time.sleep(LOOK_S)
        seen = {sample.uuid: sample for sample in sampler.take()}
        gpus = sampler.gpus
    return tuple(
        FreeGpu(
            index=gpu.index,
            uuid=gpu.uuid,
            total_bytes=gpu.memory_bytes,
            used_bytes=sample.used_bytes if (sample := seen.get(gpu.uuid)) is not None else None,
            util_percent=sample.util_percent if sample is not None else None,
        )
        for gpu in gpus
    )
