"""How fast other settings would be: each cost as a curve over the settings, and the law that puts them together.

Every cost is known by many draws at once, so that what is not known of it is in the interval of the rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from vtune.analysis.model.curve import Curve, Picks, Seen
from vtune.analysis.model.points import Floats, Nearness, Points, nearness, points_of
from vtune.analysis.model.rows import Row
from vtune.analysis.model.rungs import STEP_SD, SeenRung
from vtune.analysis.model.schedule_law import Pace, batches_per_s, crowding
from vtune.analysis.model.setup import Regime

DRAWS = 128
# Of a cost, the part that a batch takes however small it is, at the smallest batch that was seen. In the training's own
# step it may be anything, larger parts being less likely; what a worker does once a batch is little beside its samples.
OWN_FIXED = np.linspace(0.0, 0.9, 10)
OWN_FIXED_PRIOR = (OWN_FIXED + 0.1) ** 0.2 * (1 - OWN_FIXED)
CPU_FIXED = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.5])
CPU_FIXED_PRIOR = np.array([0.25, 0.25, 0.2, 0.15, 0.1, 0.05])
# A file that is opened for all of a batch: waiting may be anything, too.
WAIT_FIXED = np.array([0.0, 0.15, 0.3, 0.5, 0.7])
WAIT_FIXED_PRIOR = np.array([0.45, 0.2, 0.15, 0.12, 0.08])
# Cores that are threads of each other do six to seven tenths of so many whole ones; nobody tells which they are.
EFFICIENCY = np.array([1.0, 0.9, 0.8, 0.7, 0.6])
EFFICIENCY_PRIOR = np.array([0.4, 0.1, 0.15, 0.15, 0.2])
# So many waits at once make the most of the storage, or of a lock.
STREAMS = np.array([0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 1e6])
STREAMS_PRIOR = np.array([0.01, 0.01, 0.02, 0.05, 0.06, 0.07, 0.07, 0.07, 0.07, 0.07, 0.5])
# Independent samples spread less in a larger batch; a slow file server, or a slow core, makes all of a batch slow.
CV_POWER, CV_POWER_PRIOR = np.array([-0.5, -0.25, 0.0]), np.array([0.65, 0.25, 0.1])
# What no shape tells of a cost, as a logarithm, and how likely that is before the trials have told.
LOAD_WIGGLES = ((0.03, 0.3), (0.08, 0.4), (0.2, 0.3))
OWN_WIGGLES = ((0.03, 0.3), (0.06, 0.4), (0.15, 0.3))
# What the training itself takes for a batch has little to do with how the batch came about.
OF_THE_LOADER = 1 / 3
# By the share of the time that a trial waits: whether its batches were waited for, or lay ready. Where only the former
# were seen, the latter take so much of their time: 0.3 ms where those took 1 to 2.
MOSTLY_WAITS, SELDOM_WAITS, READY = 0.3, 0.05, 0.25
# Where nobody knows how many cores there are, they bound nothing.
NO_BOUND = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shapes:
    """A curve's shapes by their two parameters, side by side."""

    fixed: Floats
    second: Floats
    prior: Floats


def _shapes(fixed: Floats, fixed_prior: Floats, second: Floats, second_prior: Floats) -> _Shapes:
    return _Shapes(
        fixed=np.repeat(fixed, len(second)),
        second=np.tile(second, len(fixed)),
        prior=np.outer(fixed_prior, second_prior).ravel(),
    )


CPU_SHAPES = _shapes(CPU_FIXED, CPU_FIXED_PRIOR, EFFICIENCY, EFFICIENCY_PRIOR)
WAIT_SHAPES = _shapes(WAIT_FIXED, WAIT_FIXED_PRIOR, STREAMS, STREAMS_PRIOR)


class TimeModel:
    def __init__(
        self,
        rows: Sequence[Row],
        rungs: Sequence[SeenRung],
        regimes: Sequence[Regime],
        cores: float | None,
    ) -> None:
        points = points_of([row.setup for row in rows], regimes)
        near = nearness(points, points)
        self._cores = NO_BOUND if cores is None else _free_cores(rows, cores)
        self._smallest = float(points.batch.min())
        times = points.batch / self._smallest

        def column(name: str) -> Floats:
            return np.array([getattr(row, name) for row in rows])

        def curve(shapes: Floats, y: Floats, sd: str, prior: Floats) -> Curve:
            seen = Seen(shapes=shapes, y=np.broadcast_to(y, shapes.shape), sd=column(sd))
            return Curve(seen, near, prior=prior, wiggles=LOAD_WIGGLES)

        computing = column("computing")
        wants_core = computing + np.minimum(1.0, column("own_cpu_s") / column("own_s"))
        crowd = crowding(wants_core[None, :], np.asarray(self._cores), CPU_SHAPES.second[:, None])
        over = np.maximum(1.0, (column("busy") - computing)[None, :] / WAIT_SHAPES.second[:, None])
        cpu, wait = np.log(column("cpu_s")) - np.log(crowd), np.log(column("wait_s")) - np.log(over)
        self._cpu = curve(_affine(CPU_SHAPES.fixed, times), cpu, "cpu_sd", CPU_SHAPES.prior)
        self._wait = curve(_affine(WAIT_SHAPES.fixed, times), wait, "wait_sd", WAIT_SHAPES.prior)
        self._cv = curve(_powers(points), np.log(column("cv")), "cv_sd", CV_POWER_PRIOR)
        self._own, self._own_points = _own_curve(rows, rungs, regimes, self._smallest)
        rng = np.random.default_rng(0)
        self._picks: list[Picks] = [curve.pick(DRAWS, rng) for curve in (self._cpu, self._wait, self._own, self._cv)]
        with_workers = [row for row in rows if row.setup.workers] or list(rows)
        self._dispatch_s = median(row.dispatch_s for row in with_workers)
        self._waited_s, self._ready_s = _deliveries(with_workers)
        self._own_cpu = median(row.own_cpu_s / row.own_s for row in rows)
        stops = [(row.stop_s, row.stop_every) for row in rows if row.stop_s]
        self._stop_s = median([stop_s for stop_s, _ in stops] or [0.0])
        self._stop_every = median([every for _, every in stops] or [1.0])
        # Data in fewer parts than there are workers keeps no more of them at work.
        self._parts = min((row.delivering for row in rows if row.delivering < row.setup.workers), default=np.inf)

    def pace(self, points: Points, near: Nearness) -> Pace:
        """One row for each draw. `near`: to the trials."""
        times = points.batch / self._smallest
        cpu_picks, wait_picks, own_picks, cv_picks = self._picks
        near_own = nearness(points, self._own_points, loader=OF_THE_LOADER)
        own_s = np.exp(self._own.at(_affine(OWN_FIXED, times), near_own, own_picks))
        return Pace(
            cpu_s=np.exp(self._cpu.at(_affine(CPU_SHAPES.fixed, times), near, cpu_picks)),
            io_s=np.exp(self._wait.at(_affine(WAIT_SHAPES.fixed, times), near, wait_picks)),
            dispatch_s=np.asarray(self._dispatch_s),
            own_s=own_s,
            own_cpu_s=self._own_cpu * own_s,
            stop_s=np.asarray(self._stop_s),
            stop_every=np.asarray(self._stop_every),
            waited_s=np.asarray(self._waited_s),
            ready_s=np.asarray(self._ready_s),
            cv=np.exp(self._cv.at(_powers(points), near, cv_picks)),
            cores=np.asarray(self._cores),
            efficiency=CPU_SHAPES.second[cpu_picks.shapes][:, None],
            streams=WAIT_SHAPES.second[wait_picks.shapes][:, None],
        )

    def batches_per_s(self, points: Points, pace: Pace) -> Floats:
        return batches_per_s(pace, np.minimum(points.workers, self._parts), points.prefetch, points.in_order)


def _own_curve(
    rows: Sequence[Row], rungs: Sequence[SeenRung], regimes: Sequence[Regime], smallest: float
) -> tuple[Curve, Points]:
    """Of the training's own time, and what it rests on: a ladder fed from memory tells of it as well."""
    seen = [(row.setup, row.own_s, row.own_sd) for row in rows]
    seen += [(one.setup, one.batch_s, STEP_SD) for one in rungs if one.batch_s is not None]
    points = points_of([setup for setup, _, _ in seen], regimes)
    shapes = _affine(OWN_FIXED, points.batch / smallest)
    own = Seen(
        shapes=shapes,
        y=np.broadcast_to(np.log([own_s for _, own_s, _ in seen]), shapes.shape),
        sd=np.array([sd for _, _, sd in seen]),
    )
    near = nearness(points, points, loader=OF_THE_LOADER)
    return Curve(own, near, prior=OWN_FIXED_PRIOR, wiggles=OWN_WIGGLES), points


def _affine(fixed: Floats, times: Floats) -> Floats:
    """Shapes by points: a part that is fixed and one that grows with the batch."""
    shapes: Floats = np.log(fixed[:, None] + (1 - fixed[:, None]) * times[None, :])
    return shapes


def _powers(points: Points) -> Floats:
    powers: Floats = CV_POWER[:, None] * np.log(points.batch)[None, :]
    return powers


def _deliveries(rows: Sequence[Row]) -> tuple[float, float]:
    """Of batches that are waited for and of those that lie ready; each from the trials that mostly saw such ones."""
    waits = [(row.record.measurement.data_wait_fraction or 0.0, row.delivery_s) for row in rows]
    waited = median([one for wait, one in waits if wait > MOSTLY_WAITS] or [one for _, one in waits])
    ready = [one for wait, one in waits if wait < SELDOM_WAITS]
    return waited, median(ready) if ready else READY * waited


def _free_cores(rows: Sequence[Row], cores: float) -> float:
    """Of one rank. Neighbours do not keep a training from its share."""
    others = median(row.record.measurement.others_cores or 0.0 for row in rows)
    ranks = max(max(1, row.record.measurement.ranks) for row in rows)
    return max(cores - others, cores / 2) / ranks
