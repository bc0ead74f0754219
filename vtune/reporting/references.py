"""What a word like `7`, `quickstart:7` or `before.json` means: one trial, with all that is known of its settings."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vtune.analysis.choose import choose
from vtune.analysis.two_sides import launches_like
from vtune.domain.choice import Choice
from vtune.domain.experiment import Experiment
from vtune.domain.machine import Machine
from vtune.domain.numbers import trials_text
from vtune.domain.record import TrialRecord
from vtune.errors import UsageError
from vtune.journal.find_study import NAMES_SHOWN, find_study, study_names
from vtune.journal.paths import StudyPaths
from vtune.journal.ran import Ran, read_ran
from vtune.journal.told import HINT, read_told
from vtune.knobs.registry import same_knobs
from vtune.reporting.none_chosen import none_chosen_text, why_none_chosen
from vtune.reporting.study_report import StudyReport, read_study_report


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    # As it was typed.
    reference: str
    study: str
    record: TrialRecord
    # Of the same settings, the record among them; and all that the study or the file holds.
    launches: tuple[TrialRecord, ...]
    records: tuple[TrialRecord, ...]
    # Nobody named the trial: it is the one that the study would choose.
    chosen: bool = False
    machine: Machine | None = None
    # None for a file, as what follows.
    folder: Path | None = None
    # What the study would launch now, and what this trial ran, where its folder is still here.
    experiment: Experiment | None = None
    ran: Ran | None = None

    @property
    def cores(self) -> float | None:
        return self.machine.cores if self.machine is not None else None


def find_side(reference: str, *, results: Path, study: str | None) -> Side:
    """`study` is that of a bare number; without it, the one used last."""
    if re.fullmatch(r"\d{1,9}", reference):
        return _of_study(reference, find_study(results, study), int(reference))
    name, colon, number = reference.rpartition(":")
    if colon and re.fullmatch(r"\d{1,9}", number) and (paths := _study_at(name, results)) is not None:
        return _of_study(reference, paths, int(number))
    paths = _study_at(reference, results)
    if paths is not None:
        return _of_study(reference, paths, None)
    path = Path(reference)
    if os.path.isfile(path):
        return _of_file(reference, path)
    raise UsageError(f"{reference} is no trial, no study and no file", hint=_what_exists(results))


def read_again(side: Side) -> Side:
    """The same trial of a study that has grown meanwhile: what the study would choose may be another one by now."""
    assert side.folder is not None
    now = _of_study(side.reference, StudyPaths(side.folder), side.record.trial)
    return replace(now, chosen=side.chosen)


def _study_at(text: str, results: Path) -> StudyPaths | None:
    """By its name in the results folder, or by the path of its own folder."""
    if text in study_names(results):
        return StudyPaths(results / text)
    paths = StudyPaths(Path(text))
    return paths if text and os.path.isfile(paths.journal) else None


def _of_study(reference: str, paths: StudyPaths, number: int | None) -> Side:
    report = read_study_report(paths)
    record = _named(report, number) if number is not None else _chosen(reference, report.records, report.choice)
    return Side(
        reference=reference,
        study=report.study,
        record=record,
        launches=tuple(launches_like(record, report.records)),
        records=report.records,
        chosen=number is None,
        machine=report.machine,
        folder=report.folder,
        experiment=report.experiment,
        ran=read_ran(StudyPaths(report.folder).trial(record.trial)),
    )


def _of_file(reference: str, path: Path) -> Side:
    told = read_told(path)
    record = next((one for one in told.records if one.trial == told.subject), None)
    if record is None:
        cores = told.machine.cores if told.machine is not None else None
        record = _chosen(reference, told.records, choose(told.records, same=same_knobs(()), cores=cores))
    return Side(
        reference=reference,
        study=told.study,
        record=record,
        launches=tuple(launches_like(record, told.records)),
        records=told.records,
        chosen=told.chosen,
        machine=told.machine,
    )


def _named(report: StudyReport, number: int) -> TrialRecord:
    record = next((record for record in report.records if record.trial == number), None)
    if record is None:
        known = [one.trial for one in report.records]
        there = f"it has {trials_text(known)}" if known else "it has no trial yet: measure one with vtune probe"
        raise UsageError(f"study {report.study} has no trial {number}", hint=there)
    return record


def _chosen(reference: str, records: Sequence[TrialRecord], choice: Choice) -> TrialRecord:
    if (why := why_none_chosen(records, choice)) is not None:
        known = [record.trial for record in records]
        there = f"name one of its trials: {trials_text(known)}" if known else HINT
        text = none_chosen_text(why, records, choice)
        raise UsageError(f"{reference} has no trial that would be chosen: {text}", hint=there)
    assert choice.best is not None
    return choice.best


def _what_exists(results: Path) -> str:
    names = study_names(results)
    forms = "a trial is 7 or STUDY:7, a result is the path of a JSON file"
    if not names:
        return f"{forms}; there is no study in {results}"
    shown = ", ".join(names[:NAMES_SHOWN]) + (" ..." if len(names) > NAMES_SHOWN else "")
    return f"{forms}; studies in {results}: {shown}"
