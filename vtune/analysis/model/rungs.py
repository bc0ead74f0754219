"""What a search for the ceiling has told of the training's side: other batch sizes, fed from memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vtune.analysis.model.setup import Setup
from vtune.domain.record import Rung, TrialRecord

# Of a rung's time, as a logarithm: a few steps, whose batch came from memory.
STEP_SD = 0.04


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRung:
    trial: int
    setup: Setup
    rung: Rung
    # Of the training, for one batch of one rank.
    batch_s: float | None


def rungs_of(known: Sequence[tuple[TrialRecord, Setup]]) -> list[SeenRung]:
    return [
        SeenRung(
            trial=record.trial,
            setup=replace(setup, batch=rung.batch_size),
            rung=rung,
            batch_s=max(1, record.measurement.ranks) * rung.batch_size / rung.samples_per_s
            if rung.samples_per_s
            else None,
        )
        for record, setup in known
        if record.measurement.ceiling is not None
        for rung in record.measurement.ceiling.ladder
    ]
