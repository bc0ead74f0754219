"""An attempt of a full run as a line of the journal: what its settings came to, beyond what a trial can see."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vtune.domain.effects import Scalar
from vtune.domain.machine import Machine
from vtune.domain.numbers import rate
from vtune.domain.record import Diagnosis, Measurement, TrialRecord
from vtune.execution.launch_ended import Ended
from vtune.execution.launch_guard import AttemptEnd
from vtune.journal.study import open_study


def record_of(
    source: TrialRecord,
    settings: Mapping[str, Scalar],
    end: AttemptEnd,
    how: Ended,
    *,
    launch: int,
    batch: int | None,
    number: int,
    evidence: Mapping[str, Any],
) -> TrialRecord:
    achieved, then = end.achieved, source.measurement
    steps = "an unknown number of" if achieved.counters_gone else achieved.steps
    return TrialRecord(
        trial=number,
        origin="launch",
        settings={**source.settings, **settings},
        reason=f"launch {launch}, the full run of trial {source.trial}",
        status=how.status,
        detail=how.detail,
        seconds=end.outcome.seconds,
        measurement=Measurement(
            samples_per_s=achieved.samples_per_s,
            samples_per_s_whole_run=achieved.samples_per_s_whole if achieved.samples_per_s is not None else None,
            steps_measured=achieved.steps,
            steady=achieved.samples_per_s is not None,
            ram_peak_bytes=achieved.ram_peak_bytes,
            shm_peak_bytes=achieved.shm_peak_bytes,
            vram_peak_bytes=achieved.vram_peak_bytes,
            cache=then.cache,
            ranks=then.ranks,
            # Its rate is in samples of this batch; the trial's may have been another, with what is set beside it.
            effective_batch=batch,
            samples_per_epoch=then.samples_per_epoch,
            epoch_bound_by=then.epoch_bound_by,
            effective_settings={**then.effective_settings, **settings},
        ),
        diagnosis=Diagnosis(
            bottleneck="unknown",
            verdict=f"{rate(achieved.samples_per_s)} samples/s over {steps} steps of the full run; trial "
            f"{source.trial} promised {rate(then.samples_per_s)}",
        ),
        asked=dict(settings),
        evidence=evidence,
    )


def keep(
    source: TrialRecord,
    settings: Mapping[str, Scalar],
    end: AttemptEnd,
    how: Ended,
    *,
    launch: int,
    batch: int | None,
    evidence: Mapping[str, Any],
    results: Path,
    study: str,
    machine: Machine,
    wait: bool,
) -> int:
    """The number that it got."""
    with open_study(results, study, machine, wait=wait) as opened:
        record = record_of(
            source, settings, end, how, launch=launch, batch=batch, number=opened.next_trial(), evidence=evidence
        )
        opened.journal.append(record)
        return record.trial
