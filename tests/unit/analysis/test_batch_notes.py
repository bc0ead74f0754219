"""The rules for the learning rate stand only where the measured effective batch is another one."""

from __future__ import annotations

from vtune.analysis.batch_notes import batch_notes, batch_without_effect
from vtune.domain.consumed import Consumed, NoBatch
from vtune.domain.record import Measurement


def used(batch: int | None, no_batch: NoBatch | None = None, size: int = 4, **fields: int) -> Measurement:
    consumed = Consumed(by_step=((float(batch or 30), 50),), mean=batch or 30, no_batch=no_batch, **fields)
    return Measurement(effective_batch=batch, consumed=consumed, effective_settings={"batch_size": size})


def test_twice_the_samples_by_step_have_the_measured_ratio_whatever_was_set() -> None:
    [note] = batch_notes(used(8), used(4), factor=32.0)
    assert "8 instead of 4" in note and "×2 for SGD" in note


def test_a_batch_that_stays_has_no_rule_whatever_was_set() -> None:
    assert not list(batch_notes(used(64), used(64), factor=2.0))


def test_an_unknown_batch_of_the_users_own_leaves_no_rule() -> None:
    [note] = batch_notes(used(64), None, factor=2.0)
    assert "64" in note and "learning rate" not in note
    assert not list(batch_notes(used(64), None, factor=1.0))


def test_rows_that_cannot_be_counted_are_said_and_have_no_rule() -> None:
    [note] = batch_notes(used(None, NoBatch.ROWS_UNKNOWN), used(4), factor=2.0)
    assert "rows" in note and "learning rate" not in note


def test_a_larger_batch_that_leaves_as_many_rows_and_bytes_did_not_take_effect() -> None:
    own = used(8, size=8, rows=8, batch_bytes=96)
    now = used(None, NoBatch.ROWS_UNKNOWN, size=16, rows=8, batch_bytes=96)
    because = batch_without_effect({"batch_size": 16}, now, own)
    assert because is not None and "batch_size=16" in because and "8 rows" in because
    # Samples packed into one longer row.
    packed = used(None, NoBatch.ROWS_UNKNOWN, size=16, rows=8, batch_bytes=192)
    assert batch_without_effect({"batch_size": 16}, packed, own) is None
    # Not asked for.
    assert batch_without_effect({"workers": 2}, now, own) is None
