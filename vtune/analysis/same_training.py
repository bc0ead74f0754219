"""Whether settings leave the training as it is: the same samples, the same mathematics. Another effective batch makes
another training of it, and so does a knob that is not in class SAME."""

from __future__ import annotations

from collections.abc import Collection

from vtune.analysis.another_batch import batch_ratio, may_be_another
from vtune.domain.effects import Scalar
from vtune.domain.record import TrialRecord

# Judged together, by the samples of one optimizer step.
IN_BATCH = frozenset(("batch_size", "accumulate_steps"))


def another_training(record: TrialRecord, reference: TrialRecord, same: Collection[str]) -> bool:
    """`same`: the knobs of class SAME, the user's own among them."""
    if _another_batch(record, reference):
        return True
    names = {*record.settings, *(record.asked or {}), *reference.settings, *(reference.asked or {})}
    return any(changes(name, same) and _differs(name, record, reference) for name in names)


def changes(name: str, same: Collection[str]) -> bool:
    """Another value of this knob is another training; of the batch's it depends on both."""
    return name not in same and name not in IN_BATCH


def _another_batch(record: TrialRecord, reference: TrialRecord) -> bool:
    """By what the optimizers used; where that is not known of one of the two, by what was set as well."""
    if may_be_another(record, reference):
        return True
    unknown = batch_ratio(record.measurement, reference.measurement) is None
    return unknown and _set_batch(record) != _set_batch(reference)


def _set_batch(record: TrialRecord) -> tuple[Scalar, Scalar] | int:
    batch, times = _value("batch_size", record), _value("accumulate_steps", record) or 1
    return batch * times if isinstance(batch, int) and isinstance(times, int) else (batch, times)


def _differs(name: str, record: TrialRecord, reference: TrialRecord) -> bool:
    """Where only one of the two says it, it was turned there, or seen by chance: only the former counts."""
    one, other = _value(name, record), _value(name, reference)
    if one is not None and other is not None:
        return one != other
    return (one is not None and name in (record.asked or {})) or (other is not None and name in (reference.asked or {}))


def _value(name: str, record: TrialRecord) -> Scalar:
    value = record.settings.get(name)
    return (record.asked or {}).get(name) if value is None else value
