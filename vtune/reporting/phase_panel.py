"""The phases of a study for a terminal: a line for each step, ticked off in signs and in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vtune.analysis.walked import tuning_s
from vtune.domain.phases import PhaseOutcome
from vtune.reporting.inert import harmless
from vtune.reporting.phase_words import (
    STATES,
    Line,
    Measured,
    cost_text,
    left_out_text,
    measured,
    missed_text,
    not_judged,
    option_line,
    plan_text,
    rung_lines,
    steps_and_choice_text,
    stopped_text,
)
from vtune.reporting.study_report import StudyReport
from vtune.reporting.words import settings_text

# Steps of different phases stand below each other.
ALIGNED = max(len(f"{sign} {word}") for sign, word in map(STATES.__getitem__, STATES.keys() - {"open"}))
STYLES = {
    "kept": "bold",
    "rolled back": "",
    "not decided": "",
    "skipped": "dim",
    "not tried yet": "dim",
    "interrupted": "",
}


def phases_section(report: StudyReport, *, brief: bool = False) -> list[RenderableType]:
    """Nothing where no plan was walked. `brief`: a line for each phase, where its steps were just told."""
    phases = report.phases
    if phases is None:
        return []
    seen = measured(report)
    limits = [f"{name} {text}" for name, text in (("RAM", phases.ram_limit), ("VRAM", phases.vram_limit)) if text]
    heading = plan_text(phases.plan, phases.up_to, phases.of)
    heading += f", under {' and '.join(limits)}" if limits else ""
    parts: list[RenderableType] = [Text(), Text(harmless(heading), style="dim")]
    for outcome in phases.phases:
        parts += _brief(outcome) if brief else _phase(outcome, seen)
        parts += [Text(harmless(f"  by hand: {line}", 1000)) for line in outcome.phase.by_hand]
    for words in not_judged([rung for outcome in phases.phases for rung in outcome.rungs]):
        parts.append(Padding(Text(harmless(words), style="dim"), (0, 0, 0, 1)))
    if (chosen := steps_and_choice_text(report)) is not None:
        parts.append(Text(harmless(chosen), style="dim"))
    if phases.options and not brief:
        parts += [Text(), Text("the plan's options", style="dim")]
        parts.append(
            _grid(
                (one.option.name, settings_text(one.settings), option_line(one, seen, report.choice))
                for one in phases.options
            )
        )
    if phases.missed is not None:
        parts += [Text(), Text("what the phases missed", style="dim")]
        parts.append(Padding(Text(harmless(missed_text(phases.missed), 1000)), (0, 0, 0, 1)))
    spent = tuning_s(report.records, phases.trials, scout_s=report.scout_s)
    parts += [
        Text(),
        Text(harmless(cost_text(spent, phases.trials, report.choice, scouted=report.scout_s > 0)), style="dim"),
    ]
    if (stopped := stopped_text(report)) is not None:
        parts.append(Text(harmless(f"stopped: {stopped}", 1000), style="bold"))
    elif phases.stage != "done":
        parts.append(Text("not at its end: the same vtune phase goes on", style="dim"))
    if phases.left_out:
        parts.append(Text(harmless(left_out_text(phases.left_out)), style="dim"))
    return parts


def line_grid(lines: Sequence[Line]) -> RenderableType:
    """Reasons wrap beside their step, not below it."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True, min_width=ALIGNED)
    grid.add_column(overflow="fold")
    for line in lines:
        head = f"{line.sign} {line.word}"
        told = f"{line.turned}: {line.told}" if line.told else line.turned
        grid.add_row(Text(head, style=STYLES[line.word]), Text(harmless(told, 1000), style=STYLES[line.word]))
    return Padding(grid, (0, 0, 0, 2))


def _brief(outcome: PhaseOutcome) -> list[RenderableType]:
    tried = any(rung.state != "open" for rung in outcome.rungs)
    why = (
        f": {outcome.why}"
        if outcome.why
        else ""
        if outcome.done
        else ": not at its end"
        if tried
        else ": not reached yet"
    )
    return [Text(harmless(f"phase {outcome.phase.number}: {outcome.phase.name}{why}", 1000))]


def _phase(outcome: PhaseOutcome, seen: Measured) -> list[RenderableType]:
    phase = outcome.phase
    lines = rung_lines(outcome.rungs, seen, open_too=not outcome.done)
    heading = f"phase {phase.number}: {phase.name}"
    if not lines:
        heading += f": {outcome.why}" if outcome.why else ": not reached yet"
        return [Text(harmless(heading, 1000))]
    return [Text(harmless(heading)), line_grid(lines)]


def _grid(rows: Iterable[tuple[str, ...]]) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold")
    for cells in rows:
        grid.add_row(*(Text(harmless(cell, 1000)) for cell in cells))
    return Padding(grid, (0, 0, 0, 1))
