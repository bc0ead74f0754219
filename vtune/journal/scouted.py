"""The scout run of a study, beside its trials: before which one it ran, and for how long."""

from __future__ import annotations

import json

from vtune.journal.paths import StudyPaths


def scouted(study: StudyPaths) -> tuple[int, float] | None:
    try:
        number = int(json.loads(study.scout.spec.read_text(encoding="utf-8"))["trial"])
        return number, float(json.loads(study.scout.outcome.read_text(encoding="utf-8"))["seconds"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
