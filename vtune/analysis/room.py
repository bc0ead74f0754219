"""How likely settings fit, by what is predicted of them."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

from vtune.analysis.compare import Z95
from vtune.domain.experiment import Limit, Limits
from vtune.domain.prediction import Prediction
from vtune.domain.record import Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Under the limits, and in what there is; None where nobody knows of an end."""

    ram_bytes: int | None
    vram_bytes: int | None

    def chance(self, predicted: Prediction) -> float:
        """What nobody can tell is taken to fit."""
        return _chance(predicted.ram_bytes, predicted.ram_ci95, self.ram_bytes) * _chance(
            predicted.vram_bytes, predicted.vram_ci95, self.vram_bytes
        )


def room_of(limits: Limits, ram_total_bytes: int | None, seen: Measurement) -> Room:
    """`seen`: a trial that shows the devices."""
    devices = [gpu.vram_total_bytes for gpu in seen.gpus if gpu.vram_total_bytes is not None]
    return Room(
        ram_bytes=_least(limits.ram, ram_total_bytes),
        vram_bytes=_least(limits.vram, min(devices, default=None)),
    )


def _least(limit: Limit | None, total_bytes: int | None) -> int | None:
    allowed = limit.resolve(total_bytes) if limit is not None else None
    return min((one for one in (allowed, total_bytes) if one is not None), default=None)


def _chance(needs: int | None, interval: tuple[int, int] | None, most: int | None) -> float:
    if needs is None or interval is None or most is None:
        return 1.0
    half = (interval[1] - needs) if most >= needs else (needs - interval[0])
    return NormalDist().cdf(Z95 * (most - needs) / max(1, half))
