"""report.md: the verdict first, then why, what next, how to adopt it, and every trial."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from vtune.domain.choice import Ratio
from vtune.domain.experiment import Limit
from vtune.domain.numbers import bytes_, many, money, rate, seconds, trials_text
from vtune.domain.record import Measurement, TrialRecord
from vtune.reporting.adopt import Adoption, how_to_adopt
from vtune.reporting.failures import Failure, failures
from vtune.reporting.inert import fenced, in_markdown
from vtune.reporting.phase_markdown import phases_in_markdown
from vtune.reporting.search_markdown import search_in_markdown, shown_in_markdown
from vtune.reporting.study_report import StudyReport, gpu_was_seen
from vtune.reporting.summary import BEST, outcomes, summarize, why_beyond
from vtune.reporting.words import (
    cost_text,
    ram_cell,
    rate_cell,
    ratio_cell,
    setting_word,
    settings_by_kind,
    settings_cell,
)

# What is rarer than that is in trials.csv, and the report stays one that somebody reads.
MOST_FAILURES = 20
MOST_NOTES = 40
# A command is not shortened; a line of this length is none.
MOST_PASTED = 4000

Column = tuple[str, Callable[[TrialRecord], str]]


def markdown(report: StudyReport) -> str:
    summary, failed = summarize(report), failures(report.records)
    parts = [
        f"# {in_markdown(report.study)}",
        f"**{in_markdown(summary.verdict)}**",
        *_section("Why", why_beyond(summary, failed)),
        *_section("Next", summary.next),
    ]
    adoption = how_to_adopt(report)
    if adoption is not None:
        parts += _adopt(adoption)
    parts += [*phases_in_markdown(report), *search_in_markdown(report), *shown_in_markdown(report)]
    if report.records:
        parts += ["## Trials", *_trials(report)]
    parts += _failures(failed)
    parts += _section("Notes", [*_measured_on(report), *summary.notes], most=MOST_NOTES)
    return "\n\n".join(parts) + "\n"


def _section(title: str, lines: Sequence[str], most: int | None = None) -> list[str]:
    if not lines:
        return []
    shown = [f"- {in_markdown(line)}" for line in lines[:most]]
    if len(shown) < len(lines):
        shown.append(f"- {len(lines) - len(shown)} more are in trials.csv")
    return [f"## {title}", "\n".join(shown)]


def _adopt(adoption: Adoption) -> list[str]:
    parts = ["## How to adopt it", fenced([adoption.line])]
    if doubts := (*adoption.another_training, *adoption.repeated):
        parts.append("\n".join(f"- **{in_markdown(line)}**" for line in doubts))
    if adoption.command:
        parts += ["A trial with them:", fenced([adoption.command], MOST_PASTED)]
    if adoption.places:
        parts += ["In the training itself:", *(fenced(place, MOST_PASTED) for place in adoption.places)]
    return parts


def _trials(report: StudyReport) -> list[str]:
    choice = report.choice
    alike, varying = settings_by_kind(report.records)
    parts = []
    if choice.baseline is not None:
        whose = (
            "your own settings"
            if choice.baseline_is_own
            else "it stands in: no trial of your own settings can be compared"
        )
        parts.append(f"Ratios are against trial {choice.baseline.trial} ({whose}); ± is half of a 95 % interval.")
    if alike and len(report.records) > 1:
        parts.append(
            f"The same in all trials: {in_markdown(', '.join(f'{n} {setting_word(v)}' for n, v in alike.items()))}."
        )
    names = varying if len(report.records) > 1 else list(alike)
    columns = [column for column in _columns(report, names) if _tells_something(column, report.records)]
    rows = [[_cell(cell(record)) for _, cell in columns] for record in report.records]
    head = [title for title, _ in columns]
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    return [*parts, "\n".join(lines)]


def _columns(report: StudyReport, names: Sequence[str]) -> list[Column]:
    choice, price = report.choice, report.price

    def ratio(record: TrialRecord) -> str:
        if choice.baseline is not None and record.trial == choice.baseline.trial:
            return "1"
        found: Ratio | None = choice.ratios.get(record.trial)
        return "" if found is None else ratio_cell(found)

    columns: list[Column] = [
        ("trial", lambda record: str(record.trial)),
        ("settings", lambda record: settings_cell(record, names)),
        ("outcome", outcomes(choice)),
        ("samples/s", rate_cell),
        ("over the whole run", lambda record: _or_empty(record.measurement.samples_per_s_whole_run, rate)),
        ("voxels/s", lambda record: _or_empty(record.measurement.voxels_per_s, many)),
        ("× baseline", ratio),
        ("waiting for data", lambda record: _or_empty(record.measurement.data_wait_fraction, _percent)),
        ("RAM peak", lambda record: ram_cell(record, choice)),
        ("/dev/shm peak", lambda record: _or_empty(record.measurement.shm_peak_bytes, bytes_)),
        ("cache", lambda record: "" if record.measurement.cache == "unknown" else record.measurement.cache),
        ("effective batch", lambda record: _or_empty(record.measurement.effective_batch, str)),
        ("epoch", lambda record: _or_empty(record.measurement.projected.epoch_s, seconds)),
        ("whole run", lambda record: _or_empty(record.measurement.projected.run_s, seconds)),
        ("cost", lambda record: cost_text(record.measurement, price)),
    ]
    if gpu_was_seen(report.records):
        columns[8:8] = [
            ("VRAM peak", lambda record: _or_empty(record.measurement.vram_peak_bytes, bytes_)),
            ("VRAM allocated", lambda record: _or_empty(record.measurement.vram_allocated_peak_bytes, bytes_)),
            ("VRAM reserved", lambda record: _or_empty(record.measurement.vram_reserved_peak_bytes, bytes_)),
            ("in validation", lambda record: _or_empty(record.measurement.vram_validation_peak_bytes, bytes_)),
            ("GPU busy", lambda record: _or_empty(_gpu_busy(record.measurement), lambda value: f"{value:.0f} %")),
        ]
    return columns


def _tells_something(column: Column, records: Sequence[TrialRecord]) -> bool:
    title, cell = column
    values = {cell(record) for record in records}
    # One effective batch for all trials is no news.
    return bool(values - {""}) and not (title == "effective batch" and len(records) > 1 and len(values - {""}) == 1)


def _cell(text: str) -> str:
    return f"**{in_markdown(text)}**" if text in (BEST, f"{BEST}, baseline") else in_markdown(text)


def _failures(found: Sequence[Failure]) -> list[str]:
    if not found:
        return []
    parts = ["## What failed"]
    for failure in found[:MOST_FAILURES]:
        status = failure.status.value.replace("_", " ")
        parts.append(f"- **{trials_text(failure.trials)}, {status}**: {in_markdown(failure.detail)}")
        if failure.last_words:
            parts += ["The training's last words:", fenced(failure.last_words)]
    if len(found) > MOST_FAILURES:
        parts.append(f"{len(found) - MOST_FAILURES} more kinds of failure are in trials.csv.")
    return parts


def _measured_on(report: StudyReport) -> Iterable[str]:
    machine = report.machine
    if machine is not None:
        facts = [machine.cores_text, *([machine.cpu_model] if machine.cpu_model else [])]
        facts += [f"{bytes_(machine.ram_bytes)} of RAM"] if machine.ram_bytes is not None else []
        yield f"measured on {', '.join([*facts, *machine.gpus])}"
    asked = [f"{name} {limit.text}" for name, limit in _limits(report) if limit is not None]
    if asked:
        yield f"limits: {', '.join(asked)}"
    if report.price is not None:
        yield f"price: {money(report.price.per_hour, report.price)} an hour"
    rated = [record.measurement for record in report.records if record.measurement.samples_per_s is not None]
    if rated and all(measured.projected.run_s is None for measured in rated):
        yield "what the whole run takes is not projected: its length is not known (vtune.run.epochs says it)"


def _limits(report: StudyReport) -> Iterable[tuple[str, Limit | None]]:
    yield "RAM", report.limits.ram
    yield "VRAM", report.limits.vram


def _gpu_busy(measured: Measurement) -> float | None:
    known = [gpu.util_mean for gpu in measured.gpus if gpu.util_mean is not None]
    return sum(known) / len(known) if known else None


def _or_empty(value: float | None, text: Callable[[float], str]) -> str:
    return "" if value is None else text(value)


def _percent(value: float) -> str:
    return f"{value:.0%}"
