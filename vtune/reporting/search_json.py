"""A search in JSON, and what any study shows by its trials: fronts, and what was predicted against what came."""

from __future__ import annotations

from typing import Any

from vtune.analysis.walked import pays_back_after_s, tuning_s
from vtune.reporting.search_of_study import search_to_json
from vtune.reporting.search_words import fronts_of, reckoning_of
from vtune.reporting.study_report import StudyReport


def search_in_report(report: StudyReport) -> dict[str, Any]:
    search, found = report.search, reckoning_of(report)
    told: dict[str, Any] = {
        "search": None if search is None else search_to_json(search),
        "fronts": [
            {"memory": one.memory, "trials": [{"trial": n, "needs_bytes": one.needs_bytes[n]} for n in one.trials]}
            for one in fronts_of(report)
        ],
        "foretold": {
            "trials": [
                {
                    "trial": one.trial,
                    "predicted": one.predicted,
                    "measured_samples_per_s": one.samples_per_s,
                    "ram_bytes": one.ram_bytes,
                    "vram_bytes": one.vram_bytes,
                    "inside": one.inside,
                }
                for one in found.trials
            ],
            "inside": found.rates[0],
            "of": found.rates[1],
            "off": found.off,
            "model_is_wrong": found.wrong,
        },
    }
    if search is not None:
        spent = tuning_s(report.records, report.tuned_by, scout_s=report.scout_s)
        told |= {"tuning_s": spent, "pays_back_after_s": pays_back_after_s(spent, report.choice)}
    return told
