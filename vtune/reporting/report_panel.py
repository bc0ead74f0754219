"""A study for a terminal: the verdict, how to adopt it, the trials that matter, why, what next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from rich import box
from rich.cells import cell_len
from rich.console import ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from vtune.analysis.race import DELTA
from vtune.domain.choice import Choice
from vtune.domain.effects import Scalar
from vtune.domain.numbers import bytes_, rate, seconds, trials_text
from vtune.domain.record import TrialRecord
from vtune.reporting.adopt import how_to_adopt
from vtune.reporting.failures import failures
from vtune.reporting.inert import harmless
from vtune.reporting.phase_panel import phases_section
from vtune.reporting.search_panel import search_section, shown_section
from vtune.reporting.study_report import StudyReport
from vtune.reporting.summary import outcomes, ranked_rate, summarize, why_beyond
from vtune.reporting.words import cost_text, marked, ram_cell, ratio_cell, setting_word, settings_by_kind, settings_cell

# What fits a screen; all of it is in report.md.
MOST_TRIALS, MOST_LINES, MOST_FAILURES, WORDS_OF_FAILURE = 12, 8, 3, 4
MOST_BRIEF_LINES = 4
# Where a plan was walked, its steps tell of the others.
MOST_BESIDE_PHASES = 4
# Each in a column of its own; more share one.
MOST_SETTINGS = 4
MOST_CELL = 120
# A command is not shortened; a line of this length is none.
MOST_PASTED = 4000
SETTINGS = "settings"
# Titles that no setting has: they hold a blank, a sign or a capital.
BUILT_IN = ("", "outcome", "samples/s", "× baseline", "RAM", "VRAM", "whole run", "cost", SETTINGS)
# Between two columns: the padding and the line that the box keeps free.
GAP = 2


# In a narrow terminal columns go in this order, but never one that an option asked for.
DROPPED_FIRST = ("whole run", "VRAM", "RAM", "samples/s", "cost", SETTINGS)

T = TypeVar("T")
Cell = Callable[[TrialRecord], str]
Column = tuple[str, Cell]


def report_panel(report: StudyReport, *, whole: str = "report.md", brief: bool = False) -> RenderableType:
    """`whole` is where all of it stands. `brief`: after a walk whose steps were told as they came."""
    most = MOST_BRIEF_LINES if brief else MOST_LINES
    summary, adoption = summarize(report), how_to_adopt(report)
    parts: list[RenderableType] = [
        Text(harmless(summary.verdict), style="bold" if report.choice.best is not None else "bold red")
    ]
    if report.records:
        parts += [Text(), _Trials(report, whole)]
    if adoption is not None:
        # The headline has it where it was shown.
        repeated = adoption.repeated if report.repeats_now is None else ()
        doubts = (*adoption.another_training, *repeated)
        parts += [Text(), *(Text(harmless(line), style="bold") for line in doubts)] if doubts else []
    parts += phases_section(report, brief=brief)
    parts += [*search_section(report), *shown_section(report, brief=brief)]
    failed = failures(report.records)[:MOST_FAILURES]
    for failure in failed:
        status = failure.status.value.replace("_", " ")
        heading = f"{trials_text(failure.trials)}, {status}: {failure.detail}"
        parts += [Text(), Text(harmless(heading), style="red")]
        parts += [Text(f"  │ {harmless(line)}", style="dim") for line in failure.last_words[-WORDS_OF_FAILURE:]]
    parts += _section("why", why_beyond(summary, failed), whole, most)
    parts += _section("next", summary.next, whole, most)
    parts += _section("note", summary.notes, whole, most)
    return Panel(Group(*parts), title=Text(harmless(report.study)), title_align="left", padding=(1, 1))


def to_paste(report: StudyReport) -> list[Text]:
    """What is to be copied, a line each: for outside of the frame, whose border would be copied too."""
    adoption = how_to_adopt(report)
    if adoption is None or not (adoption.command or adoption.places):
        return []
    lines = [Text(), Text("a trial with them, and where they go in the training:", style="dim")]
    lines += [Text(harmless(adoption.command, MOST_PASTED))] if adoption.command else []
    for place in adoption.places:
        lines += [Text(), Text(harmless(place[0], MOST_PASTED), style="dim")]
        lines += [Text(harmless(line, MOST_PASTED)) for line in place[1:]]
    return lines


class _Trials:
    """A table of as many columns as there is room for; what had no room is named below it."""

    def __init__(self, report: StudyReport, whole: str) -> None:
        self._report, self._whole = report, whole
        most = MOST_TRIALS if report.phases is None else MOST_BESIDE_PHASES
        self._records = _that_matter(report, most)

    def __rich_console__(self, console: object, options: ConsoleOptions) -> RenderResult:
        report, records = self._report, self._records
        columns = [column for column in _columns(report) if any(column[1](record) for record in records)]
        asked, gone = _asked_for(report), []
        names = [title for title, _ in columns if title not in BUILT_IN]
        if _needs(columns, records) > options.max_width and len(names) > 1:
            one: Column = (SETTINGS, _settings_in_one(report, names))
            columns = [columns[0], one, *(column for column in columns[1:] if column[0] not in names)]
        for title in DROPPED_FIRST:
            if _needs(columns, records) <= options.max_width:
                break
            kept = [column for column in columns if column[0] != title or title in asked]
            gone += [title] if len(kept) < len(columns) else []
            columns = kept
        yield self._table(columns, options.max_width)
        if gone:
            yield Text(f"{', '.join(gone)}: in {self._whole}", style="dim")
        if (more := len(report.records) - len(records)) > 0:
            told = "1 more trial is" if more == 1 else f"{more} more trials are"
            yield Text(f"{told} in {self._whole}", style="dim")
        for words in _legend(report, records):
            yield Text(words, style="dim")

    def _table(self, columns: Sequence[Column], width: int) -> Table:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        widths = _shared_out(columns, self._records, width)
        for title, _ in columns:
            # Cut nowhere: half of a number is another number.
            table.add_column(_heading(title), header_style="dim", overflow="fold", width=widths.get(title))
        for record in self._records:
            best = self._report.choice.best is not None and record.trial == self._report.choice.best.trial
            cells = [Text(harmless(cell(record), MOST_CELL)) for _, cell in columns]
            table.add_row(*cells, style="bold" if best else None)
        return table


def _heading(title: str) -> Text:
    """Long ones take several lines rather than the room of the numbers."""
    return Text(harmless(title, MOST_CELL).replace("_", " ").replace(" ", "\n"))


def _shared_out(columns: Sequence[Column], records: Sequence[TrialRecord], room: int) -> dict[str, int]:
    """Cells for each column: it is the one with the most to wrap that gives way. Nothing where not even words fit."""
    widths = {title: _width(title, cell, records) for title, cell in columns}
    least = {title: _width(title, cell, records, words=True) for title, cell in columns}
    room -= GAP * len(columns)
    while sum(widths.values()) > room:
        widest = max(widths, key=lambda title: widths[title] - least[title])
        if widths[widest] <= least[widest]:
            return {}
        widths[widest] -= 1
    return widths


def _needs(columns: Sequence[Column], records: Sequence[TrialRecord]) -> int:
    """The cells that they take side by side."""
    return sum(_width(title, cell, records) + GAP for title, cell in columns)


def _width(title: str, cell: Cell, records: Sequence[TrialRecord], *, words: bool = False) -> int:
    """Of the longest cell, or of the longest word. Settings in one column may wrap between two of them."""
    texts = [harmless(cell(record), MOST_CELL) for record in records]
    texts = [text.replace(", ", ",\n") for text in texts] if title == SETTINGS else texts
    apart = None if words else "\n"
    return max(cell_len(part) for text in [_heading(title).plain, *texts] for part in [*text.split(apart), ""])


def _asked_for(report: StudyReport) -> set[str]:
    asked = {"RAM": report.limits.ram, "VRAM": report.limits.vram, "cost": report.price}
    return {title for title, option in asked.items() if option is not None}


def _columns(report: StudyReport) -> list[Column]:
    names = settings_by_kind(report.records)[1] if len(report.records) > 1 else list(report.records[0].settings)
    turned: list[Column] = [(name, _setting(name)) for name in names]
    if len(names) > MOST_SETTINGS:
        turned = [(SETTINGS, _settings_in_one(report, names))]
    return [
        ("", lambda record: str(record.trial)),
        *turned,
        ("outcome", outcomes(report.choice)),
        ("samples/s", lambda record: _marked_rate(record, report.choice)),
        ("× baseline", lambda record: _ratio(record, report.choice)),
        ("RAM", lambda record: ram_cell(record, report.choice)),
        ("VRAM", lambda record: _known(record.measurement.vram_peak_bytes, bytes_)),
        ("whole run", lambda record: _known(record.measurement.projected.run_s, seconds)),
        ("cost", lambda record: cost_text(record.measurement, report.price)),
    ]


def _settings_in_one(report: StudyReport, names: Sequence[str]) -> Cell:
    """Of a walk's trials what they turned: the rest is the user's own, in all of them."""
    if report.phases is None and report.search is None:
        return lambda record: settings_cell(record, names)
    return lambda record: (
        settings_cell(record, names) if record.asked is None else _turned(record, record.asked) or "your own"
    )


def _turned(record: TrialRecord, asked: Mapping[str, Scalar]) -> str:
    return settings_cell(record, [name for name in asked if name in record.settings])


def _setting(name: str) -> Callable[[TrialRecord], str]:
    return lambda record: _known(record.settings.get(name), setting_word)


def _marked_rate(record: TrialRecord, choice: Choice) -> str:
    text = _known(ranked_rate(record, choice), rate)
    return text + marked(record) if text else ""


def _known(value: T | None, text: Callable[[T], str]) -> str:
    return "" if value is None else text(value)


def _that_matter(report: StudyReport, most: int) -> list[TrialRecord]:
    """The best, the baseline, what won the phases, then the fastest; in the order in which they were run."""
    choice, phases = report.choice, report.phases
    records: Sequence[TrialRecord] = report.records
    first = {one.trial for one in (choice.best, choice.baseline) if one is not None}
    if phases is not None:
        first |= {phases.best} if phases.best is not None else set()
        again = {lost.trial for lost in choice.lost if lost.reason == "repeated"} - first
        records = [record for record in records if record.trial not in again]

    def weight(record: TrialRecord) -> tuple[bool, float]:
        return record.trial not in first, -(ranked_rate(record, choice) or 0.0)

    kept = {record.trial for record in sorted(records, key=weight)[:most]}
    return [record for record in records if record.trial in kept]


def _legend(report: StudyReport, records: Sequence[TrialRecord]) -> list[str]:
    """Outcomes that no one word can say."""
    choice, seen = report.choice, set(map(outcomes(report.choice), records))
    lines = []
    if "tie" in seen and choice.best is not None:
        stays = choice.best == choice.baseline
        among = "" if stays else f"; of all within {DELTA:.0%} of the fastest, what asks least of the machine is chosen"
        slower = f", or not shown to be faster by more than {DELTA:.0%}" if stays else ""
        lines.append(f"tie: cannot be told from trial {choice.best.trial}{slower}{among}")
    return [*lines, *(["repeated: the same settings, launched again"] if "repeated" in seen else [])]


def _ratio(record: TrialRecord, choice: Choice) -> str:
    ratio = choice.ratios.get(record.trial)
    return ratio_cell(ratio) if ratio is not None else ""


def _section(title: str, lines: Sequence[str], whole: str, most: int) -> list[RenderableType]:
    if not lines:
        return []
    grid = Table.grid(padding=(0, 1))
    for line in lines[:most]:
        grid.add_row("·", Text(harmless(line)))
    if len(lines) > most:
        grid.add_row("·", Text(f"{len(lines) - most} more in {whole}", style="dim"))
    return [Text(), Text(title, style="dim"), Padding(grid, (0, 0, 0, 1))]
