"""A study for a terminal: the verdict, how to adopt it, the trials that matter, why, what next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from vtune.domain.choice import Choice
from vtune.domain.numbers import bytes_, harmless, rate, seconds, times, trials_text
from vtune.domain.record import TrialRecord
from vtune.reporting.adopt import how_to_adopt
from vtune.reporting.markdown import cost_text, setting_word, settings_cell, varying_settings
from vtune.reporting.study_report import StudyReport
from vtune.reporting.summary import failures, outcome, summarize

# What fits a screen; all of it is in report.md.
MOST_TRIALS, MOST_LINES, MOST_FAILURES, WORDS_OF_FAILURE = 12, 8, 3, 4
# Each in a column of its own; more share one.
MOST_SETTINGS = 4
MOST_CELL = 16

T = TypeVar("T")
Column = tuple[str, Callable[[TrialRecord], str]]


def report_panel(report: StudyReport) -> RenderableType:
    summary, adoption = summarize(report), how_to_adopt(report)
    parts: list[RenderableType] = [
        Text(harmless(summary.verdict), style="bold" if report.choice.best is not None else "bold red")
    ]
    if report.records:
        parts += [Text(), _table(report)]
    if adoption is not None:
        parts += _section("adopt", [*([adoption.flags] if adoption.flags else []), *adoption.places])
        parts += [Text(harmless(line), style="bold") for line in adoption.another_training]
    for failure in failures(report.records)[:MOST_FAILURES]:
        status = failure.status.value.replace("_", " ")
        heading = f"{trials_text(failure.trials)}, {status}: {failure.detail}"
        parts += [Text(), Text(harmless(heading), style="red")]
        parts += [Text(f"  │ {harmless(line)}", style="dim") for line in failure.last_words[-WORDS_OF_FAILURE:]]
    parts += _section("why", summary.why)
    parts += _section("next", summary.next)
    parts += _section("note", summary.notes)
    return Panel(Group(*parts), title=Text(harmless(report.study)), title_align="left", padding=(1, 1))


def _table(report: StudyReport) -> RenderableType:
    records = _that_matter(report.records, report.choice)
    columns = [column for column in _columns(report) if any(column[1](record) for record in records)]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for title, cell in columns:
        widest = max(len(cell(record)) for record in records)
        # Long headings take several lines rather than the room of the numbers.
        heading = Text(harmless(title, 40).replace("_", " ").replace(" ", "\n"))
        table.add_column(heading, header_style="dim", min_width=min(widest, MOST_CELL), overflow="ellipsis")
    for record in records:
        best = report.choice.best is not None and record.trial == report.choice.best.trial
        cells = [Text(harmless(cell(record), 120)) for _, cell in columns]
        table.add_row(*cells, style="bold" if best else None)
    if len(records) == len(report.records):
        return table
    return Group(table, Text(f"{len(report.records) - len(records)} more trials are in report.md", style="dim"))


def _columns(report: StudyReport) -> list[Column]:
    names = varying_settings(report.records) if len(report.records) > 1 else list(report.records[0].settings)
    turned: list[Column] = [(name, _setting(name)) for name in names]
    if len(names) > MOST_SETTINGS:
        turned = [("settings", lambda record: settings_cell(record, names))]
    return [
        ("", lambda record: str(record.trial)),
        *turned,
        ("outcome", lambda record: outcome(record, report.choice)),
        ("samples/s", lambda record: _known(record.measurement.samples_per_s, rate)),
        ("× baseline", lambda record: _ratio(record, report.choice)),
        ("RAM", lambda record: _known(record.measurement.ram_peak_bytes, bytes_)),
        ("VRAM", lambda record: _known(record.measurement.vram_peak_bytes, bytes_)),
        ("whole run", lambda record: _known(record.measurement.projected.run_s, seconds)),
        ("cost", lambda record: cost_text(record.measurement, report.price)),
    ]


def _setting(name: str) -> Callable[[TrialRecord], str]:
    return lambda record: _known(record.settings.get(name), setting_word)


def _known(value: T | None, text: Callable[[T], str]) -> str:
    return "" if value is None else text(value)


def _that_matter(records: Sequence[TrialRecord], choice: Choice) -> list[TrialRecord]:
    """The best, the baseline, then the fastest; in the order in which they were run."""
    first = {one.trial for one in (choice.best, choice.baseline) if one is not None}

    def weight(record: TrialRecord) -> tuple[bool, float]:
        return record.trial not in first, -(record.measurement.samples_per_s or 0.0)

    kept = {record.trial for record in sorted(records, key=weight)[:MOST_TRIALS]}
    return [record for record in records if record.trial in kept]


def _ratio(record: TrialRecord, choice: Choice) -> str:
    ratio = choice.ratios.get(record.trial)
    return times(ratio.value, ratio.ci95) if ratio is not None else ""


def _section(title: str, lines: Sequence[str], bullet: str = "·") -> list[RenderableType]:
    if not lines:
        return []
    grid = Table.grid(padding=(0, 1))
    for line in lines[:MOST_LINES]:
        grid.add_row(bullet, Text(harmless(line)))
    if len(lines) > MOST_LINES:
        grid.add_row(bullet, Text(f"{len(lines) - MOST_LINES} more in report.md", style="dim"))
    return [Text(), Text(title, style="dim"), Padding(grid, (0, 0, 0, 1))]
