"""A report as JSON objects: what `vtune report --json` prints, and choice.json."""

from __future__ import annotations

from typing import Any

from vtune.domain.choice import Choice, Ratio
from vtune.domain.record import TrialRecord
from vtune.journal.files import to_json
from vtune.journal.records import record_to_json
from vtune.reporting.adopt import settings_to_adopt
from vtune.reporting.infeasible import nearest, ruled_out
from vtune.reporting.phase_json import phases_in_report
from vtune.reporting.search_json import search_in_report
from vtune.reporting.study_report import StudyReport
from vtune.reporting.summary import summarize

CHOICE_SCHEMA = 1


def report_to_json(report: StudyReport) -> dict[str, Any]:
    choice, summary = report.choice, summarize(report)
    plain: dict[str, Any] = to_json(
        {
            "study": report.study,
            "baseline": _record(choice.baseline),
            "best": _record(choice.best),
            **_speedup(choice.speedup),
            "best_same": _best_same(choice),
            "tie": choice.tie,
            "trials": [record_to_json(record) for record in report.records],
            **phases_in_report(report),
            **search_in_report(report),
            "machine": report.machine,
            "choice": choice_to_json(report),
            "verdict": summary.verdict,
            "why": summary.why,
            "next": summary.next,
            "notes": summary.notes,
        }
    )
    return plain


def choice_to_json(report: StudyReport) -> dict[str, Any]:
    """By trial numbers: the records themselves are in the journal."""
    choice = report.choice
    plain: dict[str, Any] = to_json(
        {
            "schema": CHOICE_SCHEMA,
            "study": report.study,
            "best": _number(choice.best),
            "best_same": _best_same(choice),
            "settings": choice.best.settings if choice.best is not None else None,
            "adopt": settings_to_adopt(report),
            "baseline": _number(choice.baseline),
            "baseline_is_own": choice.baseline_is_own,
            "ranked_by": choice.ranked_by,
            **_speedup(choice.speedup),
            "paired_rounds": choice.paired_rounds.get(choice.best.trial) if choice.best is not None else None,
            "unconfirmed": choice.unconfirmed,
            "provisional": choice.provisional,
            "tie": choice.tie,
            "limits": {
                "ram": report.limits.ram.text if report.limits.ram is not None else None,
                "vram": report.limits.vram.text if report.limits.vram is not None else None,
            },
            "price": report.price,
            "lost": [
                {"trial": lost.trial, "reason": lost.reason, "why": lost.why, **_against_baseline(choice, lost.trial)}
                for lost in choice.lost
            ],
            "nearest_relaxation": _relaxation(report),
            "remarks": choice.remarks,
        }
    )
    return plain


def _record(record: TrialRecord | None) -> dict[str, Any] | None:
    return None if record is None else record_to_json(record)


def _best_same(choice: Choice) -> dict[str, Any] | None:
    """The best of those that train as the baseline does, and the best over it: 1 where it is that one."""
    if choice.best_same is None or choice.best is None:
        return None
    is_it = choice.best == choice.best_same
    over = Ratio(value=1.0, ci95=(1.0, 1.0)) if is_it else choice.over_same.get(choice.best.trial)
    found = {"trial": choice.best_same.trial, "settings": choice.best_same.settings, "rounds": choice.over_same_rounds}
    return {**found, "over_it": over and over.value, "over_it_ci95": over and over.ci95}


def _number(record: TrialRecord | None) -> int | None:
    return None if record is None else record.trial


def _speedup(ratio: Ratio | None) -> dict[str, Any]:
    return {"speedup": ratio and ratio.value, "speedup_ci95": ratio and ratio.ci95}


def _against_baseline(choice: Choice, trial: int) -> dict[str, Any]:
    return {**_speedup(choice.ratios.get(trial)), "paired_rounds": choice.paired_rounds.get(trial)}


def _relaxation(report: StudyReport) -> dict[str, Any] | None:
    """Of trials that were ended at their limit only where no other is over one: those need more than is known."""
    machine = report.machine
    total = machine.ram_bytes if machine is not None else None
    near = nearest(ruled_out(report.compared, report.choice, report.limits, total))
    if near is None or (near.at_least and report.choice.best is not None):
        return None
    return {"trial": near.record.trial, "over": near.over, "at_least": near.at_least}
