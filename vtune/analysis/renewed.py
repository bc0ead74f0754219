"""Renewals at work: in the promise of the run that goes on, in later promises, in the projections of trials."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from vtune.analysis.comparable import full_run
from vtune.analysis.doubts import doubt_text
from vtune.analysis.renewal_words import shown_text
from vtune.analysis.same_training import another_training
from vtune.domain.effects import Scalar
from vtune.domain.launch import Promise
from vtune.domain.record import CODE, Measurement, Pause, TrialRecord
from vtune.domain.renewal import RarePause, RarePauseKind, Renewal
from vtune.domain.steady import NotComeYet


def renewed(promise: Promise, renewal: Renewal) -> Promise:
    """The promise of the run that goes on."""
    return _longer(_at_rate(promise, renewal), promise, renewal.samples_per_s_before, renewal.samples_per_s)


def promised_again(promise: Promise, renewals: Iterable[Renewal]) -> Promise:
    """The promise of a later run with the same settings. Its trial's projection has the rare pauses already."""
    for renewal in renewals:
        rate, before = renewal.steady_samples_per_s, promise.samples_per_s
        if rate is None or before is None:
            continue
        now = _at_rate(promise, renewal)
        promise = now if isinstance(renewal.because, RarePause) else _longer(now, promise, before, rate)
    return promise


def renewals_for(
    record: TrialRecord,
    settings: Mapping[str, Scalar],
    records: Sequence[TrialRecord],
    renewals: Sequence[Renewal],
    same: Collection[str],
) -> list[Renewal]:
    """Those of earlier launches with these settings, the earliest first: each one started from those before it."""
    of = {one.trial: one for one in records}
    return [
        renewal
        for renewal in renewals
        if renewal.settings == settings and renewal.trial in of and same_training(record, of[renewal.trial], same)
    ]


def with_launches(
    records: Sequence[TrialRecord], renewals: Sequence[Renewal], same: Collection[str]
) -> list[TrialRecord]:
    """Adds the rare pauses that launches of the same training have shown to the projection of each trial."""
    of = {record.trial: record for record in records}
    rare = [one for one in renewals if isinstance(one.because, RarePause) and one.trial in of]
    return [_with_pauses(record, rare, of, same) for record in records] if rare else list(records)


def same_training(record: TrialRecord, source: TrialRecord, same: Collection[str]) -> bool:
    codes = [one.evidence.get(CODE) for one in (record, source)]
    return (None in codes or codes[0] == codes[1]) and not another_training(record, source, same)


def _with_pauses(
    record: TrialRecord, rare: Sequence[Renewal], of: Mapping[int, TrialRecord], same: Collection[str]
) -> TrialRecord:
    if full_run(record) or record.measurement.samples_per_s is None or record.measurement.ceiling is not None:
        return record
    newest: dict[RarePauseKind, tuple[RarePause, int]] = {}
    for renewal in rare:
        if isinstance(pause := renewal.because, RarePause) and same_training(record, of[renewal.trial], same):
            newest[pause.what] = pause, renewal.launch
    for pause, launch in newest.values():
        measured = _with_pause(record.measurement, pause, launch)
        if measured is not record.measurement:
            record = replace(record, measurement=measured, notes=(*record.notes, shown_text(pause, launch)))
    return record


def _with_pause(measured: Measurement, pause: RarePause, launch: int) -> Measurement:
    """A trial that saw how often the pause comes has it already, in its rate or its projection."""
    own = [one for one in measured.pauses if one.what == pause.what and one.cut_after_batches is None]
    if any(one.counted or one.every_steps is not None for one in own):
        return measured
    if pause.what == "stop" and pause.every_steps is not None and measured.steps_measured >= pause.every_steps:
        return measured
    if pause.every_steps is None and measured.restarts_in_rate:
        return measured
    found = Pause(
        what=pause.what,
        seconds=pause.seconds,
        seen=pause.seen,
        seldom=True,
        every_steps=pause.every_steps,
        launch=launch,
    )
    doubts = tuple(one for one in measured.doubts if not (isinstance(one, NotComeYet) and one.what == pause.what))
    if doubts != measured.doubts:
        because = doubt_text(doubts[0]) if doubts else None
        measured = replace(measured, doubts=doubts, steady=not doubts, unsteady_because=because)
    pauses = (*(one for one in measured.pauses if one not in own), found)
    # A pause that the trial saw once, without its interval, is in the projection once an epoch.
    paid_s = sum(one.seconds for one in own)
    return _projected(replace(measured, pauses=pauses), found, paid_s)


def _projected(measured: Measurement, pause: Pause, paid_s: float) -> Measurement:
    """`paid_s`: seconds of each epoch that the projection has already for such pauses."""
    projected, samples = measured.projected, measured.samples_per_epoch
    each_s = _by_sample_s(measured, pause)
    if projected.epoch_s is None or not samples or each_s is None:
        return measured
    projected = replace(projected, epoch_s=projected.epoch_s + samples * each_s - paid_s)
    run_s, whole = projected.run_s, measured.samples_per_s_whole_run
    if run_s is None or whole is None:
        return replace(measured, projected=projected)
    # Whole pauses only: the last interval may not end within the run.
    longer_s = int(whole * run_s * each_s / pause.seconds) * pause.seconds - whole * run_s / samples * paid_s
    cost = projected.cost * (run_s + longer_s) / run_s if projected.cost is not None else None
    return replace(
        measured,
        projected=replace(projected, run_s=run_s + longer_s, cost=cost),
        samples_per_s_whole_run=whole * run_s / (run_s + longer_s),
    )


def shown_pauses_s(measured: Measurement) -> float:
    """Seconds that pauses shown by launches add to each sample."""
    return sum(_by_sample_s(measured, pause) or 0.0 for pause in measured.pauses if pause.launch is not None)


def _by_sample_s(measured: Measurement, pause: Pause) -> float | None:
    batch, samples = measured.samples_per_step, measured.samples_per_epoch
    if pause.every_steps is None:
        return pause.seconds / samples if samples else None
    return pause.seconds / (pause.every_steps * batch) if batch else None


def _at_rate(promise: Promise, renewal: Renewal) -> Promise:
    if renewal.steady_samples_per_s is None:
        return promise
    return replace(
        promise,
        samples_per_s=renewal.steady_samples_per_s,
        samples_per_s_ci95=renewal.steady_samples_per_s_ci95,
    )


def _longer(now: Promise, then: Promise, before: float, after: float) -> Promise:
    """Corrects the time of the whole run for the new rate."""
    run_s, whole = then.run_s, then.samples_per_s_whole_run
    if run_s is None or whole is None:
        return now if whole is None else replace(now, samples_per_s_whole_run=1 / (1 / whole + 1 / after - 1 / before))
    samples = whole * run_s
    longer_s = samples / after - samples / before
    return replace(now, run_s=run_s + longer_s, samples_per_s_whole_run=samples / (run_s + longer_s))
