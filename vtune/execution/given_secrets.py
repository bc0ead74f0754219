"""The secrets that a training is given: by its environment, its command and its config."""

from __future__ import annotations

import os
from dataclasses import replace

from vtune.domain.experiment import Workload
from vtune.domain.record import TrialRecord
from vtune.domain.secrets import masked, masked_json, secrets_in, secrets_in_words


def given_secrets(workload: Workload) -> tuple[str, ...]:
    """The longest first: one may be part of another."""
    found = {
        *secrets_in(os.environ),
        # Whoever writes a value for this training alone means it for nobody else.
        *secrets_in(workload.env, also_opaque=True),
        *secrets_in_words(workload.command),
        *secrets_in(workload.config or {}),
    }
    return tuple(sorted(found, key=lambda one: (-len(one), one)))


def without_secrets(record: TrialRecord, known: tuple[str, ...]) -> TrialRecord:
    """A training may print anything, and its record quotes it."""
    diagnosis = record.diagnosis
    return replace(
        record,
        detail=None if record.detail is None else masked(record.detail, known),
        notes=tuple(masked(note, known) for note in record.notes),
        evidence=masked_json(record.evidence, known),
        diagnosis=replace(
            diagnosis,
            verdict=masked(diagnosis.verdict, known),
            why=tuple(masked(line, known) for line in diagnosis.why),
            advice=tuple(replace(one, text=masked(one.text, known)) for one in diagnosis.advice),
        ),
    )
