"""Many setups as columns, and how near they are to each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vtune.analysis.model.setup import Regime, Setup

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    workers: Floats
    prefetch: Floats
    batch: Floats
    accumulate: Floats
    persistent: Floats
    pin: Floats
    in_order: Floats
    regime: NDArray[np.int_]

    def __len__(self) -> int:
        return len(self.workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearness:
    """Of some points to others. `settings`: 1 at the same place, next to nothing two units away."""

    settings: Floats
    alike: NDArray[np.bool_]


def points_of(setups: Iterable[Setup], regimes: Sequence[Regime]) -> Points:
    number = {regime: at for at, regime in enumerate(regimes)}
    rows = list(setups)

    def column(name: str) -> Floats:
        return np.asarray([float(getattr(one, name)) for one in rows])

    return Points(
        workers=column("workers"),
        prefetch=column("prefetch"),
        batch=column("batch"),
        accumulate=column("accumulate"),
        persistent=column("persistent"),
        pin=column("pin"),
        in_order=column("in_order"),
        regime=np.asarray([number[one.regime] for one in rows], dtype=int),
    )


def nearness(one: Points, other: Points, *, loader: float = 1.0) -> Nearness:
    """`loader`: how much of the distance counts that only the loader's own settings make."""
    here, there = _features(one, loader), _features(other, loader)
    squares = (here**2).sum(axis=1)[:, None] + (there**2).sum(axis=1)[None, :] - 2 * here @ there.T
    return Nearness(
        settings=closeness(np.sqrt(np.maximum(squares, 0.0))), alike=one.regime[:, None] == other.regime[None, :]
    )


def spread_out(points: Points, first: Sequence[int], count: int) -> list[int]:
    """So many of them: the first ones, then again and again what is farthest from all that were taken."""
    features, taken = _features(points, loader=1.0), list(first) or [0]
    nearest = np.full(len(points), np.inf)

    def take(at: int) -> None:
        squares = ((features - features[at]) ** 2).sum(axis=1)
        squares[points.regime != points.regime[at]] = np.inf
        np.minimum(nearest, squares, out=nearest)

    for at in taken:
        take(at)
    while len(taken) < min(count, len(points)):
        taken.append(int(nearest.argmax()))
        take(taken[-1])
    return taken


def closeness(far: Floats) -> Floats:
    """By distance, as a function that may bend anywhere, but has no steps (Matérn 3/2)."""
    scaled = np.sqrt(3) * far
    near: Floats = (1 + scaled) * np.exp(-scaled)
    return near


def _features(points: Points, loader: float) -> Floats:
    """One unit is as far as settings have to differ to tell little of each other."""
    return np.column_stack(
        (
            loader * np.log2(points.workers + 1) / 1.5,
            loader * np.log2(points.prefetch) / 2,
            loader * 0.5 * points.persistent,
            loader * 0.7 * points.in_order,
            np.log2(points.batch) / 1.5,
            0.3 * np.log2(points.accumulate),
            0.5 * points.pin,
        )
    )
