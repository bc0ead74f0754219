"""Studies with given rates, written as vtune writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.choices import choose
from support.records import a_record
from vtune.domain.record import Measurement, Projection, TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.journal.journal import Journal
from vtune.journal.paths import StudyPaths, last_study_file
from vtune.reporting.study_report import StudyReport

EPOCHS, SAMPLES = 32, 4000


def a_trial(
    trial: int, rate: float | None, *, ci: float | None = 0.03, whole: bool = True, batch: int = 2,
    asked: dict[str, Any] | None = None, workers: int = 1, measured: dict[str, Any] | None = None, **fields: Any,
) -> TrialRecord:  # fmt: skip
    """`ci` is half of the interval as a share of the rate."""
    record = a_record(trial=trial)
    run_s = EPOCHS * SAMPLES / rate if rate else None
    measurement = replace(
        record.measurement,
        samples_per_s=rate,
        samples_per_s_ci95=(rate * (1 - ci), rate * (1 + ci)) if rate and ci is not None else None,
        samples_per_s_whole_run=rate * 0.98 if rate and whole else None,
        effective_batch=batch,
        projected=Projection(epoch_s=SAMPLES / rate, run_s=run_s) if rate and run_s and whole else Projection(),
    )
    settings = {"workers": workers, "batch_size": batch, **(asked or {})}
    record = replace(
        record,
        settings=settings,
        asked={} if asked is None else asked,
        measurement=replace(measurement, **measured or {}),
    )
    return replace(record, **fields)


def a_failure(
    trial: int,
    status: TrialStatus = TrialStatus.CRASHED,
    detail: str = "exit code 1",
    words: Sequence[str] = (),
    asked: dict[str, Any] | None = None,
) -> TrialRecord:
    evidence = {"last_words": list(words)} if words else {}
    return replace(
        a_record(trial=trial, status=status),
        detail=detail,
        measurement=Measurement(),
        evidence=evidence,
        asked=asked or {},
    )


def a_report(*records: TrialRecord, **fields: Any) -> StudyReport:
    limits = fields.get("limits")
    return StudyReport(
        study="demo", folder=Path("results/demo"), records=records, choice=choose(records, limits=limits), **fields
    )


def write_study(results: Path, *records: TrialRecord, name: str = "demo") -> StudyPaths:
    paths = StudyPaths(results / name)
    paths.root.mkdir(parents=True)
    paths.journal.touch()
    for record in records:
        Journal(paths.journal).append(record)
    last_study_file(results).write_text(f"{name}\n")
    return paths
