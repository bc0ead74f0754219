"""The samples that each step of a full run will use, against those of the user's own settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vtune.analysis.another_batch import AnotherBatch, batch_change, batch_ratio
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.record import Measurement, TrialRecord
from vtune.knobs.batch import ACCUMULATE_STEPS, BATCH_SIZE
from vtune.knobs.plan import batch_factor
from vtune.knobs.ways import current_settings
from vtune.strategies.turned import turned

BATCH_KNOBS = (BATCH_SIZE.name, ACCUMULATE_STEPS.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOfRun:
    # Of the trial that is launched.
    beside: float
    # Of the user's own settings.
    factor: float
    another: AnotherBatch | None = None
    # Of the user's own settings, where it is exact.
    before: int | None = None
    # None too where it never ran: what is set beside the trial's own settings.
    effective: int | None = None


def batch_of_run(
    record: TrialRecord,
    extra: Mapping[str, Scalar],
    experiment: Experiment,
    records: Sequence[TrialRecord],
    own: Measurement | None,
) -> BatchOfRun:
    """`extra`: what is set beside the trial's own settings. `own`: of the user's own, where that is known."""
    settings = {**turned(record), **extra}
    now: Measurement | None = record.measurement
    beside = 1.0
    if any(name in extra for name in BATCH_KNOBS):
        same = (one.measurement for one in records if _same_batch(turned(one), settings) and one.measurement.consumed)
        now = next(same, None)
        beside = _by_settings(record, extra, experiment)
        ratio = batch_ratio(now, record.measurement) if now is not None else None
        beside = beside if ratio is None else ratio
    before = own.effective_batch if own is not None else None
    if now is not None:
        ratio = batch_ratio(now, own) if own is not None else None
        return BatchOfRun(
            beside=beside,
            factor=batch_factor(settings, experiment) if ratio is None else ratio,
            another=batch_change(now, own) if own is not None else None,
            before=before,
            effective=now.effective_batch,
        )
    then = batch_ratio(record.measurement, own) if own is not None else None
    factor = batch_factor(settings, experiment) if then is None else then * beside
    another = None
    if own is not None and own.samples_per_step and not math.isclose(factor, 1.0):
        mean = own.effective_batch or own.samples_per_step
        another = AnotherBatch(now=mean * factor, then=mean, exact=own.effective_batch is not None, measured=False)
    return BatchOfRun(beside=beside, factor=factor, another=another, before=before)


def _by_settings(record: TrialRecord, extra: Mapping[str, Scalar], experiment: Experiment) -> float:
    """Over the trial's own batch, as far as it is known how large that was set."""
    was = {**current_settings(experiment), **{name: v for name, v in record.settings.items() if v is not None}}
    factor = 1.0
    for name in BATCH_KNOBS:
        asked, before = extra.get(name), was.get(name)
        if isinstance(asked, int) and isinstance(before, int) and before > 0:
            factor *= asked / before
    return factor


def _same_batch(one: Mapping[str, Scalar], other: Mapping[str, Scalar]) -> bool:
    return all(one.get(name) == other.get(name) for name in BATCH_KNOBS)
