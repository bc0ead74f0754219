"""What settings are predicted to do before they are measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Intervals are of 95 %. A memory that nobody can tell is None."""

    # Of the same kind as what the study ranks by: a whole run's where that is known.
    samples_per_s: float
    samples_per_s_ci95: tuple[float, float]
    ram_bytes: int | None = None
    ram_ci95: tuple[int, int] | None = None
    # Of the fullest device.
    vram_bytes: int | None = None
    vram_ci95: tuple[int, int] | None = None
    shm_bytes: int | None = None
    # What it rests on where that is little, in words.
    notes: tuple[str, ...] = ()
