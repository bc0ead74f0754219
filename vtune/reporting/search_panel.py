"""A search for a terminal: how it ended, which knob mattered, what to run where memory is needed elsewhere, and how
good its predictions were."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vtune.analysis.walked import tuning_s
from vtune.reporting import search_words as words
from vtune.reporting.inert import harmless
from vtune.reporting.phase_words import cost_text
from vtune.reporting.search_of_study import SearchOfStudy
from vtune.reporting.study_report import StudyReport

# What fits a screen; all of it is in report.md.
MOST_KNOBS, MOST_ON_A_FRONT, MOST_FORETOLD = 8, 6, 12


def search_section(report: StudyReport) -> list[RenderableType]:
    """Nothing where no search was made."""
    search = report.search
    if search is None:
        return []
    parts = [Text(), _dim(words.heading(search)), _line(_space(search)), _line(words.state_text(search))]
    parts += [_line(line) for line in words.remarks_of(report)]
    parts += [_line(line) for line in [words.next_text(search)] if line is not None]
    parts += [_dim(words.left_out_text(search.left_out))] if search.left_out else []
    spent = tuning_s(report.records, report.tuned_by, scout_s=report.scout_s)
    parts += [_dim(cost_text(spent, report.tuned_by, report.choice, scouted=report.scout_s > 0))]
    if (untold := words.importance_untold(report)) is not None:
        parts += [Text(), _dim(untold)]
    elif search.importance:
        parts += [Text(), _dim(f"{words.IMPORTANCE}, {words.importance_text(search)}")]
        parts.append(_table(words.IMPORTANCE_HEAD, words.importance_rows(search)[:MOST_KNOBS]))
        parts += [_line(line) for line in [words.unturned_text(search)] if line is not None]
    return parts


def shown_section(report: StudyReport, *, brief: bool = False) -> list[RenderableType]:
    """What phases or a search show by their trials. `brief`: where each prediction was just told."""
    if report.phases is None and report.search is None:
        return []
    parts = list[RenderableType]()
    for front in words.fronts_of(report):
        parts += [Text(), _dim(words.front_text(front))]
        parts.append(_table(words.FRONT_HEAD, words.front_rows(front, report)[-MOST_ON_A_FRONT:]))
    told = words.reckoning_text(report)
    if told is not None:
        parts += [Text(), _dim(words.FORETOLD), _line(told)]
        parts += (
            []
            if brief
            else [_table(words.FORETOLD_HEAD, words.foretold_rows(words.reckoning_of(report))[:MOST_FORETOLD])]
        )
    return parts


def _space(search: SearchOfStudy) -> str:
    return words.space_text(
        search.settings_in_all,
        len(search.dimensions),
        over_a_limit=search.over_a_limit,
        fell=search.ruled_out_by_failures,
    )


def _dim(text: str) -> Text:
    return Text(harmless(text, 1000), style="dim")


def _line(text: str) -> RenderableType:
    return Padding(Text(harmless(text, 1000)), (0, 0, 0, 1))


def _table(head: words.Row, rows: Sequence[words.Row]) -> RenderableType:
    """Without columns that say nothing."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    kept = [at for at in range(len(head)) if any(row[at] for row in rows)]
    for at in kept:
        table.add_column(head[at], header_style="dim", overflow="fold")
    for row in rows:
        table.add_row(*(Text(harmless(row[at], 200)) for at in kept))
    return Padding(table, (0, 0, 0, 1))
