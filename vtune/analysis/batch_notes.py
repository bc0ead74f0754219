"""What a trial's record says of its batch: another one than the user's, none at all, one that did not take effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vtune.analysis.another_batch import batch_change, no_larger_rows
from vtune.domain.consumed import NO_BATCH_WORDS, NoBatch
from vtune.domain.effects import Scalar
from vtune.domain.record import Measurement


def batch_notes(measured: Measurement, own: Measurement | None, factor: float) -> Iterator[str]:
    """`own`: of the user's own settings, where that is known. `factor`: by the settings alone."""
    reason = measured.consumed.no_batch if measured.consumed is not None else None
    if reason is not None and (reason is not NoBatch.VARIES or factor != 1.0):
        yield f"there is no one effective batch: {NO_BATCH_WORDS[reason]}"
    if measured.samples_per_step is None:
        return
    if own is None:
        if factor != 1.0 and measured.effective_batch is not None:
            yield f"the effective batch is {measured.effective_batch}; that of your own settings was not measured"
        return
    found = batch_change(measured, own)
    if found is None:
        return
    epoch = ""
    if measured.epoch_bound_by == "iterations" and measured.samples_per_epoch:
        before = round(measured.samples_per_epoch / found.ratio)
        epoch = f" an epoch sees {measured.samples_per_epoch} samples instead of {before},"
        epoch += " and the whole run is projected for as many samples as before;"
    yield f"the effective batch is {found.change}:{epoch} {found.learning_rate}"


def batch_without_effect(asked: Mapping[str, Scalar], measured: Measurement, own: Measurement | None) -> str | None:
    """Its loader asks for the samples, and a collate hands on as many rows as ever."""
    rows = no_larger_rows(measured, own) if own is not None and "batch_size" in asked else None
    if rows is None or own is None:
        return None
    before = own.effective_settings.get("batch_size")
    return f"asked for batch_size={asked['batch_size']}, and a batch has {rows} rows as with batch_size={before}"
