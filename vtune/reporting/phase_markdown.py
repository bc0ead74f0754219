"""The phases of a study in report.md: each step with what came of it, the options beside, what was missed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vtune.analysis.walked import tuning_s
from vtune.domain.phases import PhaseOutcome
from vtune.reporting.inert import in_markdown
from vtune.reporting.phase_words import (
    Measured,
    cost_text,
    left_out_text,
    measured,
    missed_text,
    not_judged,
    option_line,
    plan_text,
    risk_text,
    rung_lines,
    steps_and_choice_text,
    stopped_text,
)
from vtune.reporting.phases_of_study import PhasesOfStudy
from vtune.reporting.study_report import StudyReport
from vtune.reporting.words import settings_text


def phases_in_markdown(report: StudyReport) -> list[str]:
    phases = report.phases
    if phases is None:
        return []
    seen = measured(report)
    parts = ["## Phases", in_markdown(_opening(phases, report), 1000)]
    rows = [row for outcome in phases.phases for row in _rows(outcome, seen)]
    if rows:
        parts.append(table(("phase", "turned", "outcome", "what came of it"), rows))
    parts += [f"- {in_markdown(words)}" for words in not_judged([r for one in phases.phases for r in one.rungs])]
    if (chosen := steps_and_choice_text(report)) is not None:
        parts.append(in_markdown(chosen))
    if phases.options:
        parts += ["### The plan's options", table(("option", "settings", ""), _options(phases, report))]
    if phases.missed is not None:
        parts += ["### What the phases missed", in_markdown(missed_text(phases.missed), 1000)]
    return parts


def _opening(phases: PhasesOfStudy, report: StudyReport) -> str:
    limits = [f"{name} {text}" for name, text in (("RAM", phases.ram_limit), ("VRAM", phases.vram_limit)) if text]
    lines = [
        f"{plan_text(phases.plan, phases.up_to, phases.of)},"
        f" walked under {' and '.join(limits) if limits else 'no limits'}."
    ]
    if (stopped := stopped_text(report)) is not None:
        lines.append(f"It stopped: {stopped}.")
    elif phases.stage != "done":
        lines.append("It is not at its end: the same vtune phase goes on.")
    spent = tuning_s(report.records, phases.trials, scout_s=report.scout_s)
    lines.append(f"{cost_text(spent, phases.trials, report.choice, scouted=report.scout_s > 0)}.")
    if phases.left_out:
        lines.append(f"{left_out_text(phases.left_out)}.")
    return " ".join(lines)


def _rows(outcome: PhaseOutcome, seen: Measured) -> Iterator[tuple[str, ...]]:
    phase = outcome.phase
    name = f"{phase.number} {phase.name}"
    risk = risk_text(phase)
    lines = rung_lines(outcome.rungs, seen, open_too=not outcome.done)
    if not lines:
        yield name, "", "", outcome.why
    for at, line in enumerate(lines):
        yield name if at == 0 else "", line.turned, line.word, line.told
    if lines and risk:
        yield "", "", "", risk
    for words in phase.by_hand:
        yield "", "", "", f"by hand: {words}"


def _options(phases: PhasesOfStudy, report: StudyReport) -> Iterator[tuple[str, ...]]:
    seen = measured(report)
    for one in phases.options:
        yield one.option.name, settings_text(one.settings), option_line(one, seen, report.choice)


def table(head: Sequence[str], rows: Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]]) -> str:
    cells = [[in_markdown(cell, 1000) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (list(head), ["---"] * len(head), *cells))
