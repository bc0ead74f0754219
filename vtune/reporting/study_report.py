"""A study as its journal tells it, judged anew: what every kind of report is made from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from vtune.analysis.choose import choose
from vtune.config.remembered import Remembered, remember
from vtune.domain.choice import Choice
from vtune.domain.experiment import Experiment, Limits, Price
from vtune.domain.machine import Machine
from vtune.domain.record import TrialRecord
from vtune.errors import UsageError
from vtune.journal.find_study import find_study
from vtune.journal.journal import Journal
from vtune.journal.paths import StudyPaths
from vtune.journal.sound import is_sound


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyReport:
    study: str
    folder: Path
    records: tuple[TrialRecord, ...]
    choice: Choice
    limits: Limits = field(default_factory=Limits)
    price: Price | None = None
    # What was asked, where the training's own files are here; only then are its config keys known.
    experiment: Experiment | None = None
    machine: Machine | None = None
    # What of the journal could not be read, in words.
    journal_notes: tuple[str, ...] = ()


def find_report(
    study: str | None = None,
    *,
    config: str | Path | None = None,
    results: Path = Path("results"),
    limits: Limits | None = None,
    price: Price | None = None,
) -> StudyReport:
    """Of the study named, the config's, or the one used last."""
    asked = remember(config) if config is not None else None
    paths = find_study(results, study or (asked.study if asked is not None else None))
    return read_study_report(paths, asked=asked, limits=limits, price=price)


def read_study_report(
    paths: StudyPaths, *, asked: Remembered | None = None, limits: Limits | None = None, price: Price | None = None
) -> StudyReport:
    """`limits` and `price` go before those of a config named now (`asked`), and those before what the study was asked
    with. Nothing is locked and nothing written: another vtune may be at work on the study."""
    said = [Remembered(limits=limits or Limits(), price=price), asked or Remembered(), _remembered(paths)]
    limits = Limits(
        vram=next((one.limits.vram for one in said if one.limits.vram is not None), None),
        ram=next((one.limits.ram for one in said if one.limits.ram is not None), None),
    )
    price = next((one.price for one in said if one.price is not None), None)
    machine = _machine(paths.machine)
    text = Journal(paths.journal).read_whole()
    records = [_priced(record, price) for record in text.records]
    notes = []
    if text.torn:
        notes.append(
            "the last line of the journal has no end (a trial is being recorded, or vtune was killed): left out"
        )
    if text.unreadable:
        lines = "1 line" if text.unreadable == 1 else f"{text.unreadable} lines"
        by = "written by a newer vtune" if text.newer == text.unreadable else f"{text.newer} written by a newer vtune"
        notes.append(f"{lines} of the journal cannot be read by this vtune{f' ({by})' if text.newer else ''}: left out")
    return StudyReport(
        study=paths.root.name,
        folder=paths.root,
        records=tuple(records),
        choice=choose(records, limits=limits, ram_total_bytes=machine.ram_bytes if machine is not None else None),
        limits=limits,
        price=price,
        experiment=next((one.experiment for one in said if one.experiment is not None), None),
        machine=machine,
        journal_notes=tuple(notes),
    )


def gpu_was_seen(records: Sequence[TrialRecord]) -> bool:
    return any(record.measurement.gpus or record.measurement.vram_peak_bytes is not None for record in records)


def _remembered(paths: StudyPaths) -> Remembered:
    try:
        return remember(paths.experiment)
    except (UsageError, OSError):
        return Remembered()


def _machine(path: Path) -> Machine | None:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        fields = {f.name: known[f.name] for f in dataclasses.fields(Machine) if f.name in known}
        machine = Machine(**{**fields, "gpus": tuple(fields.get("gpus") or ())})
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return machine if is_sound(machine, Machine) else None


def _priced(record: TrialRecord, price: Price | None) -> TrialRecord:
    """At today's price: trials may have been run while another one was known, or none."""
    projected = record.measurement.projected
    if price is None or projected.run_s is None:
        return record
    cost = projected.run_s / 3600 * price.per_hour
    return replace(record, measurement=replace(record.measurement, projected=replace(projected, cost=cost)))
