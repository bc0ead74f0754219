"""What settings take of RAM, VRAM and /dev/shm, from what others took."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from vtune.analysis.compare import Z95
from vtune.analysis.model.curve import Curve, Seen
from vtune.analysis.model.points import Floats, Nearness, Points, closeness, points_of
from vtune.analysis.model.rungs import SeenRung
from vtune.analysis.model.setup import Regime, Setup
from vtune.analysis.queues import BEYOND_THE_QUEUE, batch_in_shm, beside_the_queues, needed_shm_bytes
from vtune.domain.machine_use import RamGrowth
from vtune.domain.record import Measurement, TrialRecord

# Of a device's memory, the part that a batch does not change: model, optimizer, context. More of it is less likely.
VRAM_FIXED = np.linspace(0.0, 0.9, 19)
VRAM_FIXED_PRIOR = np.exp(-0.5 * ((VRAM_FIXED - 0.35) / 0.22) ** 2)
VRAM_SD, VRAM_WIGGLES = 0.01, ((0.01, 0.7), (0.04, 0.3))
# Two launches of the same training hold so much more or less.
RAM_NOISE = 0.03
DRAWS = 64
# Of what a worker seems to hold, the part that is its own, and how little that is known: torch and its like are mapped
# files and come to so much; of the rest, forked workers share some with the training.
LIBRARIES_BYTES = 250 * 2**20
OWN_OF_LIBRARIES, OWN_PART, OWN_PART_SD = 0.1, 0.65, 0.45
# And the part of it that may go with the size of its batch.
OF_THE_BATCH = 0.2

Told = tuple[TrialRecord, Setup]


@dataclass(frozen=True, slots=True)
class Bytes:
    middle: int
    low: int
    high: int

    def plus(self, more: int) -> Bytes:
        return Bytes(self.middle + more, self.low + more, self.high + more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    ram: Bytes | None = None
    vram: Bytes | None = None
    shm: int | None = None


class MemoryModel:
    def __init__(self, known: Sequence[Told], rungs: Sequence[SeenRung], regimes: Sequence[Regime]) -> None:
        self._ram = _Ram.of(_worst(known, ram_needed), regimes)
        self._vram = _Vram.of(_worst(known, vram_needed), rungs, regimes)
        told = [(record.measurement, setup.batch) for record, setup in known if record.measurement.batch_bytes]
        # That of the largest samples.
        self._batch = max(told, key=lambda one: (one[0].batch_bytes or 0) / one[1], default=None)
        self._beside = max((beside_the_queues(measured) for measured, _ in told), default=0)
        self._ranks = max((record.measurement.ranks for record, _ in known), default=1)

    def of(self, setups: Sequence[Setup]) -> list[Needs]:
        ram = self._ram.at(setups) if self._ram is not None else [None] * len(setups)
        vram = self._vram.at(setups) if self._vram is not None else [None] * len(setups)
        shm = [self._shm(one) for one in setups]
        return [
            Needs(ram=None if level is None else level.plus(queue or 0), vram=device, shm=queue)
            for level, device, queue in zip(ram, vram, shm, strict=True)
        ]

    def _shm(self, setup: Setup) -> int | None:
        if self._batch is None:
            return None
        measured, size = self._batch
        whole = batch_in_shm(measured, setup.batch / size) or 0
        return max(1, self._ranks) * needed_shm_bytes(whole, setup.workers, setup.prefetch) + self._beside


def vram_needed(measured: Measurement) -> int | None:
    """Of the fullest device, as limits are held against it."""
    peaks = [gpu.vram_peak_bytes for gpu in measured.gpus if gpu.vram_peak_bytes is not None]
    peak = max(peaks, default=measured.vram_peak_bytes)
    return None if peak is None else max(peak, measured.vram_validation_peak_bytes or 0)


def ram_needed(measured: Measurement) -> int | None:
    known = [one for one in (measured.ram_peak_bytes, measured.ram_projected_bytes) if one is not None]
    return max(known, default=None)


def _worst(known: Sequence[Told], needed: Callable[[Measurement], int | None]) -> list[Told]:
    """What one launch of some settings once took counts for all of them."""
    worst: dict[Setup, tuple[int, Told]] = {}
    for one in known:
        need = needed(one[0].measurement)
        if need is not None and (one[1] not in worst or need > worst[one[1]][0]):
            worst[one[1]] = need, one
    return [one for _, one in worst.values()]


class _Vram:
    def __init__(self, needed: Sequence[tuple[Setup, float]], regimes: Sequence[Regime]) -> None:
        points = points_of([setup for setup, _ in needed], regimes)
        self._regimes, self._points = regimes, points
        self._told = set(points.regime.tolist())
        self._smallest = float(points.batch.min())
        needs = np.log(np.array([max(1.0, need) for _, need in needed]))
        shapes = self._shapes(points)
        self._curve = Curve(
            Seen(shapes=shapes, y=np.broadcast_to(needs, shapes.shape), sd=np.full(len(needs), VRAM_SD)),
            _by_batch(points, points),
            prior=VRAM_FIXED_PRIOR,
            wiggles=VRAM_WIGGLES,
        )
        self._picks = self._curve.pick(DRAWS, np.random.default_rng(1))

    @classmethod
    def of(cls, known: Sequence[Told], rungs: Sequence[SeenRung], regimes: Sequence[Regime]) -> _Vram | None:
        """A rung tells what one process allocates; the device holds more than that, by as much at every size."""
        needed = [
            (setup, float(need)) for record, setup in known if (need := vram_needed(record.measurement)) is not None
        ]
        if not needed:
            return None
        told = [(one.setup, float(one.rung.vram_peak_bytes)) for one in rungs if one.rung.vram_peak_bytes]
        beside = [
            need - peak
            for setup, need in needed
            for like, peak in told
            if (like.batch, like.regime) == (setup.batch, setup.regime)
        ]
        more = [(setup, peak + median(beside)) for setup, peak in told] if beside else []
        return cls([*needed, *more], regimes)

    def at(self, setups: Sequence[Setup]) -> list[Bytes | None]:
        points = points_of(setups, self._regimes)
        found = np.exp(self._curve.at(self._shapes(points), _by_batch(points, self._points), self._picks))
        bounds = np.percentile(found, [2.5, 50, 97.5], axis=0).T
        return [
            Bytes(round(middle), round(low), round(high)) if regime in self._told else None
            for (low, middle, high), regime in zip(bounds, points.regime.tolist(), strict=True)
        ]

    def _shapes(self, points: Points) -> Floats:
        times = points.batch / self._smallest
        shapes: Floats = np.log(VRAM_FIXED[:, None] + (1 - VRAM_FIXED[:, None]) * times[None, :])
        return shapes


def _by_batch(one: Points, other: Points) -> Nearness:
    gaps = np.abs(np.log2(one.batch[:, None] / other.batch[None, :])) / 1.5
    return Nearness(settings=closeness(gaps), alike=one.regime[:, None] == other.regime[None, :])


class _Ram:
    """main + workers · (each + each sample of its batch) + each sample in the main process, by least squares around
    what one trial alone suggests; full queues and growth are reckoned, and come on top."""

    def __init__(self, known: Sequence[Told], regimes: Sequence[Regime]) -> None:
        self._known, self._regimes = known, regimes
        self._alike: dict[tuple[bool, int], Told] = {}
        self._queues_told = any(record.measurement.batch_bytes for record, _ in known)
        levels = np.array([_level(record, queues_told=self._queues_told) for record, _ in known])
        self._mean, self._sd = _suggested(known, float(levels[0]), len(regimes))
        # In standard deviations, for bytes of a worker and bytes of a sample are of very different sizes.
        design = self._design([setup for _, setup in known])
        parts, noise = design * self._sd, RAM_NOISE * levels
        self._covariance = np.linalg.inv(np.eye(len(self._sd)) + parts.T @ (parts / (noise**2)[:, None]))
        self._mean = self._mean + self._sd * (
            self._covariance @ (parts.T @ ((levels - design @ self._mean) / noise**2))
        )

    @classmethod
    def of(cls, known: Sequence[Told], regimes: Sequence[Regime]) -> _Ram | None:
        return cls(known, regimes) if known else None

    def at(self, setups: Sequence[Setup]) -> list[Bytes]:
        design = self._design(setups)
        levels = design @ self._mean
        parts = design * self._sd
        halves = Z95 * np.hypot(np.sqrt(((parts @ self._covariance) * parts).sum(axis=1)), RAM_NOISE * levels)
        found = []
        for setup, level, half in zip(setups, levels.tolist(), halves.tolist(), strict=True):
            growth = self._growth(setup)
            low, middle = max(0.0, level - half) + growth / 2, max(0.0, level) + growth
            found.append(Bytes(round(middle), round(low), round(level + half + growth)))
        return found

    def _design(self, setups: Sequence[Setup]) -> Floats:
        return np.array(
            [
                [1.0, one.workers, one.workers * one.batch, one.batch]
                + [0.0 if self._queues_told else one.workers * one.prefetch * one.batch]
                + [float(one.regime == regime) for regime in self._regimes[1:]]
                for one in setups
            ]
        )

    def _growth(self, setup: Setup) -> float:
        record, like = self._most_alike(setup.persistent, setup.workers)
        return sum(_grown(growth, record.measurement, like, setup) for growth in record.measurement.ram_growth)

    def _most_alike(self, persistent: bool, workers: int) -> Told:
        def far(one: Told) -> tuple[bool, float]:
            return one[1].persistent != persistent, abs(math.log((one[1].workers + 1) / (workers + 1)))

        if (persistent, workers) not in self._alike:
            self._alike[persistent, workers] = min(self._known, key=far)
        return self._alike[persistent, workers]


def _level(record: TrialRecord, *, queues_told: bool) -> float:
    """Without what grows and, where it is known how large they are, without the queues."""
    measured = record.measurement
    needed = float(ram_needed(measured) or 0)
    queue = (measured.shm_peak_bytes or 0) if queues_told else 0
    if measured.ram_projected_bytes is not None:
        needed -= sum(growth.to_come_bytes or 0 for growth in measured.ram_growth)
        queue = max(queue, measured.shm_needed_bytes or 0) if measured.shm_peak_bytes is not None else 0
    return max(1.0, needed - queue)


def _suggested(known: Sequence[Told], level: float, regimes: int) -> tuple[Floats, Floats]:
    """Means and standard deviations of the parts before a second trial has told them apart."""
    measured, setup = known[0][0].measurement, known[0][1]
    rss = fmean(measured.workers_rss_bytes) if measured.workers_rss_bytes else None
    each, each_sd = 0.4 * level, 0.4 * level
    if rss is not None:
        mapped = min(rss, LIBRARIES_BYTES)
        each, each_sd = OWN_OF_LIBRARIES * mapped + OWN_PART * (rss - mapped), OWN_PART_SD * rss
    sample = (measured.batch_bytes or 0) / setup.batch
    sample_sd = max(2 * sample, OF_THE_BATCH * (rss or each) / setup.batch)
    main = level - setup.workers * (each + sample * setup.batch) - sample * setup.batch
    # Of a sample that lies ready, where no batch told what it takes: a queue was seldom full when it was looked at.
    ready = max(
        (
            (record.measurement.shm_peak_bytes or 0) / ((one.workers * one.prefetch + BEYOND_THE_QUEUE) * one.batch)
            for record, one in known
        )
    )
    mean = np.array([main, each, sample, sample, ready, *([0.0] * (regimes - 1))])
    sd = np.array([2 * level, each_sd, sample_sd, sample_sd, ready, *([0.3 * level] * (regimes - 1))])
    return mean, np.maximum(sd, 1.0)


def _grown(growth: RamGrowth, measured: Measurement, then: Setup, now: Setup) -> float:
    come = float(growth.to_come_bytes or 0)
    if growth.who == "shared" and (measured.shm_peak_bytes or 0) <= (measured.shm_needed_bytes or math.inf):
        return 0.0  # a queue that filled up while it was looked at
    if growth.who != "workers" or not then.workers:
        return come
    if not now.workers:
        return 0.0
    if growth.kind == "copy_on_write":
        most = float(growth.cap_bytes or come)
        come = max(come, 0.8 * most) if now.persistent and not then.persistent else come
        return come * now.workers / then.workers
    if now.persistent == then.persistent:
        return come
    # What workers gather goes with the samples that they make, all of them together.
    by_sample = growth.bytes_per_step / max(1, measured.samples_per_step or then.batch)
    whole, run_s = measured.samples_per_s_whole_run, measured.projected.run_s
    if now.persistent:
        return by_sample * whole * run_s if whole and run_s else come
    return by_sample * (measured.samples_per_epoch or 0)
