"""Phases in JSON: what `vtune phase --json` adds to a report, and what a report says of them."""

from __future__ import annotations

from typing import Any

from vtune.analysis.walked import pays_back_after_s, tuning_s
from vtune.reporting.phase_words import measured, set_batch_text
from vtune.reporting.phases_of_study import phases_to_json
from vtune.reporting.study_report import StudyReport

# A study in which no plan was walked.
NONE: dict[str, Any] = {
    "plan": None,
    "stage": None,
    "stopped": None,
    "walked": None,
    "left": None,
    "phases": [],
    "options": [],
    "missed": None,
    "tuning_s": None,
    "pays_back_after_s": None,
}


def phases_in_report(report: StudyReport) -> dict[str, Any]:
    phases = report.phases
    if phases is None:
        return NONE
    seen, spent = measured(report), tuning_s(report.records, phases.trials, scout_s=report.scout_s)
    told = phases_to_json(phases)
    for outcome in told["phases"]:
        for rung in outcome["rungs"]:
            rung["measured_samples_per_s"] = seen.rate(rung["trial"])
            rung["another_training"] = seen.another_batch(rung["trial"])
    for option, outcome in zip(told["options"], phases.options, strict=True):
        ratio = report.choice.ratios.get(option["trial"])
        option["measured_samples_per_s"] = seen.rate(option["trial"])
        option["speedup"] = ratio.value if ratio is not None else None
        unmeasured = set_batch_text(outcome) if option["trial"] is None else None
        option["another_training"] = unmeasured or seen.another_batch(option["trial"])
    return {**told, "tuning_s": spent, "pays_back_after_s": pays_back_after_s(spent, report.choice)}
