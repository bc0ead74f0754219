"""A trial that this machine has no room for is not started: its record says so, and what would fit."""

from __future__ import annotations

from collections.abc import Sequence

from vtune.analysis.queues import Refusal, shm_refusal
from vtune.domain.experiment import Experiment
from vtune.domain.record import Diagnosis, Measurement, TrialRecord
from vtune.domain.trial import Proposal, TrialStatus
from vtune.knobs.ways import current_settings


def refusal_of(
    experiment: Experiment, proposal: Proposal, history: Sequence[TrialRecord], *, shm_free_bytes: int | None
) -> Refusal | None:
    wanted = {**current_settings(experiment), **proposal.settings}
    return shm_refusal(history, wanted, free_bytes=shm_free_bytes)


def refused_record(experiment: Experiment, proposal: Proposal, number: int, refusal: Refusal) -> TrialRecord:
    current = current_settings(experiment)
    return TrialRecord(
        trial=number,
        origin=proposal.origin,
        settings=dict(proposal.settings),
        reason=proposal.reason,
        status=TrialStatus.REFUSED,
        detail=refusal.detail,
        seconds=0.0,
        measurement=Measurement(
            batch_bytes=refusal.batch_bytes,
            batch_shm_bytes=refusal.batch_shm_bytes,
            shm_needed_bytes=refusal.needed_bytes,
        ),
        diagnosis=Diagnosis(bottleneck="unknown", verdict=f"refused: {refusal.detail}", advice=refusal.advice),
        asked={
            name: value for name, value in proposal.settings.items() if name not in current or current[name] != value
        },
        race=proposal.race,
        predicted=proposal.predicted,
    )
