"""Rare slow batches once more, after all trials: each trial was told by those that were known when it ran, and the luck
of the first one would be a gain or a loss of all that came later."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import gammaincinv

from vtune.analysis.costs import Costs
from vtune.analysis.draws import SlowShare
from vtune.analysis.schedule import Array
from vtune.analysis.tail import pooled
from vtune.analysis.twin import replay
from vtune.domain.numbers import rate
from vtune.domain.record import Measurement, Projection, TrainingCost, TrialRecord, WorkerCost

# As a logarithm: a share that all trials know by so much otherwise than the trial did is worth a replay.
OTHERWISE = 0.05
LEAST_CV = 0.005
WORTH_SAYING = 0.02


def told_by_all(records: Sequence[TrialRecord]) -> dict[int, TrialRecord]:
    """Those whose rate is another one by the slow batches of all trials. Intervals stay as wide as they were: trials
    that read the same samples first saw the same slow ones."""
    found, known = {}, dict[object, _Until]()
    for record in sorted(records, key=lambda one: one.trial):
        until = known.setdefault(record.measurement.effective_settings.get("batch_size"), _Until())
        until.meet(record)
    for record in records:
        until = known[record.measurement.effective_settings.get("batch_size")]
        factor = _factor(record.measurement, until.at(record.trial), until.at_last)
        if factor is not None:
            found[record.trial] = replace(record, measurement=_at(record.measurement, factor))
    return found


class _Until:
    """What was known of batches of one size when each trial had ended: a journal may be long."""

    def __init__(self) -> None:
        self._trials: list[int] = []
        # After each of them: batches, and how many of the slow ones.
        self._batches: list[int] = []
        self._slow: list[int] = []
        self._ratios: list[float] = []

    def meet(self, record: TrialRecord) -> None:
        share = pooled([record], record.measurement.effective_settings.get("batch_size"))
        self._ratios += share.ratios
        self._trials.append(record.trial)
        self._batches.append(share.batches + (self._batches[-1] if self._batches else 0))
        self._slow.append(len(self._ratios))

    def at(self, trial: int) -> SlowShare:
        place = bisect.bisect_right(self._trials, trial) - 1
        return SlowShare(batches=self._batches[place], ratios=tuple(self._ratios[: self._slow[place]]))

    @cached_property
    def at_last(self) -> SlowShare:
        return self.at(self._trials[-1])


def _factor(measured: Measurement, then: SlowShare, now: SlowShare) -> float | None:
    worker, training = measured.worker_cost, measured.training_cost
    workers, prefetch = (measured.effective_settings.get(name) for name in ("workers", "prefetch_factor"))
    if measured.rate_from != "twin" or worker is None or training is None or not _differ(then, now):
        return None
    if not isinstance(workers, int) or workers < 1 or worker.median_s is None or not worker.batches:
        return None
    law = _Law(
        workers=workers,
        prefetch=prefetch if isinstance(prefetch, int) else 2,
        in_order=measured.effective_settings.get("in_order") is not False,
        worker=worker,
        training=training,
    )
    return _rate(law, now) / _rate(law, then)


def _differ(then: SlowShare, now: SlowShare) -> bool:
    if not now.ratios:
        return False
    return not then.ratios or abs(math.log(_share(now) / _share(then))) > OTHERWISE


def _share(slow: SlowShare) -> float:
    """As the replay draws it: of few batches it is the larger for what they may not have shown."""
    return (len(slow.ratios) + 0.5) / (slow.batches + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Law:
    """What a record keeps of a trial's costs."""

    workers: int
    prefetch: int
    in_order: bool
    worker: WorkerCost
    training: TrainingCost

    def costs(self) -> Costs:
        load_s = _loads(self.worker)
        rows = len(load_s)
        one_kind = np.zeros(rows, int)
        return Costs(
            workers=self.workers,
            prefetch=self.prefetch,
            in_order=self.in_order,
            delivering=self.worker.delivering or self.workers,
            samples_per_batch=1.0,
            load_s=load_s,
            cpu_s=np.zeros(rows),
            dispatch_s=np.full(rows, self.worker.dispatch_s or 0.0),
            load_kind=one_kind,
            load_pattern=np.zeros(1, int),
            own_s=np.full(rows, self.training.batch_s),
            others_s=np.zeros(rows),
            delivery_s=np.full(rows, self.training.delivery_s or 0.0),
            waited=np.ones(rows, bool),
            kind=one_kind,
            pattern=np.zeros(1, int),
        )


@lru_cache(maxsize=1024)
def _rate(law: _Law, slow: SlowShare) -> float:
    return replay(law.costs(), slow=slow).rate


def _loads(worker: WorkerCost) -> Array:
    """As many as there were, with the same mean and spread: the slow ones as they were, the others like a gamma."""
    count, median_s = worker.batches or 1, worker.median_s or worker.batch_s
    slow_s = median_s * np.asarray(worker.slow)
    usual = max(1, count - len(slow_s))
    mean_s = max(0.1 * median_s, (count * worker.batch_s - float(slow_s.sum())) / usual)
    squares = (count - 1) * ((worker.cv or 0.0) * worker.batch_s) ** 2 + count * worker.batch_s**2
    variance = (squares - float((slow_s**2).sum())) / usual - mean_s**2
    cv = max(LEAST_CV, math.sqrt(max(0.0, variance)) / mean_s)
    shape = 1 / cv**2
    usual_s = mean_s / shape * gammaincinv(shape, (np.arange(usual) + 0.5) / usual)
    # In no order: neighbours that are alike would be drawn together.
    return np.random.default_rng(0).permutation(np.append(usual_s, slow_s))


def _at(measured: Measurement, factor: float) -> Measurement:
    """With a rate that is so many times the measured one; what a run pays besides stays."""
    steady, ends = measured.samples_per_s, measured.samples_per_s_ci95
    if not steady:
        return measured
    longer_s = 1 / (factor * steady) - 1 / steady
    projected, whole = measured.projected, measured.samples_per_s_whole_run
    epoch_s, run_s = projected.epoch_s, projected.run_s
    if epoch_s is not None and measured.samples_per_epoch:
        epoch_s += measured.samples_per_epoch * longer_s
    if whole and run_s:
        samples = whole * run_s
        run_s += samples * longer_s
        whole = samples / run_s
    return replace(
        measured,
        samples_per_s=factor * steady,
        samples_per_s_ci95=None if ends is None else (factor * ends[0], factor * ends[1]),
        samples_per_s_whole_run=whole,
        projected=Projection(epoch_s=epoch_s, run_s=run_s, cost=projected.cost),
    )


def told_lines(
    compared: Sequence[TrialRecord], again: Mapping[int, TrialRecord], records: Sequence[TrialRecord]
) -> list[str]:
    """Of what is compared, the rates that are no more those of their trials."""
    lines = []
    for one in compared:
        then, now = (of.measurement.samples_per_s or 0.0 for of in (one, again.get(one.trial, one)))
        if abs(now - then) > WORTH_SAYING * then:
            slow = pooled(records, one.measurement.effective_settings.get("batch_size"))
            lines.append(
                f"by the slow batches of all trials ({len(slow.ratios)} of {slow.batches}) trial {one.trial} comes to"
                f" {rate(now)} samples/s instead of {rate(then)}: it is compared by that"
            )
    return lines
