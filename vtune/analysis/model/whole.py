"""From batches a second to what a study ranks by: the whole run with its start and the beginning of every epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import numpy as np

from vtune.analysis.model.points import Floats, Points
from vtune.analysis.model.rows import Row
from vtune.analysis.model.schedule_law import Pace
from vtune.domain.choice import RankedBy
from vtune.domain.record import Measurement, TrialRecord

# What workers take to come up is a start of their own, side by side, and a part by which each waits for the one before:
# so large a part of the former, and how likely that is. Forks take a twentieth, imports from a slow disk a third.
BY_NUMBER = ((0.0, 0.2), (0.02, 0.25), (0.06, 0.25), (0.15, 0.2), (0.4, 0.1))
# Of a start, as a logarithm: it was seen once a trial.
START_SD = 0.25


class WholeRun:
    """A run is its start, its samples at the steady rate, and the beginning of every epoch but the first."""

    def __init__(self, rows: Sequence[Row], ranked_by: RankedBy, base: TrialRecord | None) -> None:
        own = next((row for row in rows if base is not None and row.record.trial == base.trial), rows[0])
        measured = own.record.measurement
        self._ranked_by, self._own = ranked_by, own.setup
        self._ranks = max(1, measured.ranks)
        # A pass over a part of the data is as long whatever the batch.
        self._by_iterations = measured.epoch_bound_by == "iterations" and measured.samples_per_part is None
        self._rebuilt = measured.loader_rebuilt
        in_rate = any(row.record.measurement.restarts_in_rate for row in rows)
        # None: only the steady rate is known, or ranked by.
        self._epoch = _samples_of_a_pass(measured) if ranked_by != "samples_per_s" or in_rate else None
        if self._epoch is None:
            return
        whole, run_s = measured.samples_per_s_whole_run, measured.projected.run_s
        self._epochs = max(1.0, whole * run_s / self._epoch) if whole and run_s else None
        self._start_s, self._by_number = _starts(rows)
        self._beyond_s, self._seen_to = self._beyond(rows)
        once = [one for row in rows if (one := self._once_s(row)) is not None]
        self._once = max(0.0, median(once)) if once else 0.0

    def log_rate(self, points: Points, pace: Pace, batches_per_s: Floats, off: Floats) -> Floats:
        """Logarithms of samples a second as the study ranks them. `off`: normal scores, one for each draw."""
        rate = batches_per_s * points.batch * self._ranks
        if self._epoch is None:
            return np.log(rate)
        samples = self._epoch * np.ones(len(points))
        if self._by_iterations:
            samples = samples * (points.batch * points.accumulate) / (self._own.batch * self._own.accumulate)
        batches = samples / (points.batch * self._ranks)
        beyond_s = np.where(batches / points.accumulate <= self._seen_to, self._beyond_s, 0.0)
        restart_s = self._restart_s(points, pace, batches) * np.exp(START_SD * off)[:, None] + beyond_s
        if self._ranked_by != "samples_per_s_whole_run" or self._epochs is None:
            return np.log(samples / (samples / rate + restart_s))
        total = self._epochs * self._epoch
        found: Floats = np.log(total / (self._once + total / rate + (self._epochs - 1) * restart_s))
        return found

    def _restart_s(self, points: Points, pace: Pace, batches: Floats) -> Floats:
        workers = np.maximum(points.workers, 1.0)
        # More than there are batches have nothing to do.
        busy = np.minimum(workers, np.maximum(1.0, batches))
        load_s = pace.cpu_s * np.maximum(1.0, busy / (pace.cores * pace.efficiency)) + pace.io_s + pace.dispatch_s
        start_s = self._start_s * (1 + self._by_number * workers)
        first_s = load_s + np.where((points.persistent > 0) & (not self._rebuilt), 0.0, start_s)
        restart_s: Floats = np.where(points.workers > 0, _less_last_round(first_s, load_s, pace.own_s, busy), 0.0)
        return restart_s

    def _beyond(self, rows: Sequence[Row]) -> tuple[float, float]:
        """Of an epoch, what neither its batches nor its workers take: validation, checkpoints. And the steps of the
        longest epoch whose end was seen: in a trial of less than one epoch it is in no rate, measured or predicted."""
        seen: list[float] = []
        alone: list[float] = []
        steps = [0.0]
        for row in rows:
            measured = row.record.measurement
            samples, rate = _samples_of_a_pass(measured), measured.samples_per_s
            if not samples or not rate or not (measured.restarts_in_rate or measured.epoch_restart_s is not None):
                continue
            steps.append(samples / (row.setup.batch * row.setup.accumulate * self._ranks))
            if measured.epoch_restart_s is not None and not measured.restarts_in_rate:
                between_s = measured.between_epochs_s
                seen.append(measured.epoch_restart_s - _workers_s(row) if between_s is None else between_s)
            else:
                workers, own_s = row.setup.workers, row.own_s + row.delivery_s
                batch_s = max(own_s, (row.load_s + row.dispatch_s) / workers) if workers else row.load_s + own_s
                batches = samples / (row.setup.batch * self._ranks)
                seen.append(samples / rate - batches * batch_s - _workers_s(row))
            if row.setup.persistent or not row.setup.workers:
                alone.append(seen[-1])
        # Where workers stay nothing of it can be theirs; one that comes late to its first batch is not told from it.
        return (max(0.0, median(alone or seen)), max(steps)) if seen else (0.0, 0.0)

    def _once_s(self, row: Row) -> float | None:
        measured = row.record.measurement
        run_s, whole, rate = measured.projected.run_s, measured.samples_per_s_whole_run, measured.samples_per_s
        samples = _samples_of_a_pass(measured)
        epoch_s = measured.projected.epoch_s if measured.part_s is None else measured.part_s
        if not (run_s and whole and rate and epoch_s and samples) or self._epochs is None:
            return None
        return run_s - whole * run_s / rate - (self._epochs - 1) * (epoch_s - samples / rate)


def _samples_of_a_pass(measured: Measurement) -> int | None:
    return measured.samples_per_part or measured.samples_per_epoch


def _starts(rows: Sequence[Row]) -> tuple[float, float]:
    """Seconds until a worker begins with its first batch, and by which part of them each further one comes later."""
    seen = [
        (row.setup.workers, max(0.01, start_s))
        for row in rows
        if row.setup.workers and (start_s := _start_s(row)) is not None
    ]
    if not seen:
        return 0.0, 0.0
    weights, values = [], []
    for part, chance in BY_NUMBER:
        logs = [math.log(start_s / (1 + part * workers)) for workers, start_s in seen]
        middle = median(logs)
        weights.append(chance * math.exp(-0.5 * sum(((one - middle) / START_SD) ** 2 for one in logs)))
        values.append((math.exp(middle), part))
    total = sum(weights) or 1.0
    starts, parts = (sum(w * one[at] for w, one in zip(weights, values, strict=True)) / total for at in (0, 1))
    return starts, parts


def _start_s(row: Row) -> float | None:
    """By the beginning of an epoch, where one was seen: workers that come one after the other hold up more than their
    first batch. Else by the first batch of the trial."""
    measured = row.record.measurement
    if not row.setup.persistent and measured.epoch_restart_s is not None and measured.between_epochs_s is not None:
        gained_s = (row.setup.workers + 1) / 2 * max(0.0, row.load_s / row.setup.workers - row.own_s)
        return measured.epoch_restart_s - measured.between_epochs_s + gained_s - row.load_s
    return None if measured.first_batch_s is None else measured.first_batch_s - row.load_s


def _less_last_round(first_s: Floats, load_s: Floats, own_s: Floats, workers: Floats) -> Floats:
    """Workers that begin together deliver their rounds together: the last one comes for less."""
    gained_s = (workers + 1) / 2 * np.maximum(0.0, load_s / workers - own_s)
    restart_s: Floats = np.maximum(0.0, first_s - gained_s)
    return restart_s


def _workers_s(row: Row) -> float:
    workers = row.setup.workers
    if not workers:
        return 0.0
    first_s = row.load_s if row.setup.persistent else row.record.measurement.first_batch_s or row.load_s
    one, load_s, own_s, count = (np.asarray(value, float) for value in (first_s, row.load_s, row.own_s, workers))
    return float(_less_last_round(one, load_s, own_s, count))
