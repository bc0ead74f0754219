"""Whether there is room for a run now, by what its trial took and what is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vtune.domain.machine import FreeGpu
from vtune.domain.numbers import bytes_
from vtune.domain.record import Measurement

# A device that computes for somebody else.
BUSY_PERCENT = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    ram_bytes: int | None = None
    # What the run will be held to.
    ram_limit_bytes: int | None = None
    shm_bytes: int | None = None
    # The fullest of the places that it writes to.
    disk: tuple[str, int] | None = None
    gpus: Sequence[FreeGpu] = ()


def lacking(needs: Measurement, free: Free, *, epochs: int | None) -> list[str]:
    """What is not known lacks nothing."""
    found = []
    ram = needs.ram_projected_bytes or needs.ram_peak_bytes
    if ram is not None and free.ram_bytes is not None and ram > free.ram_bytes:
        found.append(f"it needs {bytes_(ram)} of RAM, {bytes_(free.ram_bytes)} are available")
    elif ram is not None and free.ram_limit_bytes is not None and ram > free.ram_limit_bytes:
        found.append(f"it needs {bytes_(ram)} of RAM, its limit is {bytes_(free.ram_limit_bytes)}")
    shm = needs.shm_needed_bytes
    if shm is not None and free.shm_bytes is not None and shm > free.shm_bytes:
        found.append(f"it needs {bytes_(shm)} of /dev/shm, {bytes_(free.shm_bytes)} are free")
    if needs.disk_bytes_per_epoch and free.disk is not None:
        place, left = free.disk
        whole = needs.disk_bytes_per_epoch * (epochs or 1)
        if whole > left:
            many = f" in {epochs} epochs" if epochs else " an epoch"
            found.append(f"its checkpoints come to {bytes_(whole)}{many}, {place} has {bytes_(left)} free")
    return [*found, *_lacking_on_gpus(needs, free.gpus)]


def _lacking_on_gpus(needs: Measurement, gpus: Sequence[FreeGpu]) -> list[str]:
    used = {gpu.uuid: gpu for gpu in needs.gpus}
    found = []
    for gpu in gpus:
        wanted = used.get(gpu.uuid)
        if wanted is None:
            continue
        left = None if gpu.total_bytes is None or gpu.used_bytes is None else gpu.total_bytes - gpu.used_bytes
        if left is not None and wanted.vram_peak_bytes is not None and wanted.vram_peak_bytes > left:
            found.append(f"it needs {bytes_(wanted.vram_peak_bytes)} on GPU {gpu.index}, {bytes_(left)} are free")
        elif gpu.util_percent is not None and gpu.util_percent > BUSY_PERCENT:
            found.append(f"GPU {gpu.index} is {gpu.util_percent:.0f} % busy with another program")
    return found
