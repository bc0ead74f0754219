"""The scout run of a study, beside its trials: before which one it ran, and for how long."""

from __future__ import annotations

from vtune.foreign.read import read_json
from vtune.journal.paths import StudyPaths


def scouted(study: StudyPaths) -> tuple[int, float] | None:
    try:
        number = int(read_json(study.scout.spec)["trial"])
        return number, float(read_json(study.scout.outcome)["seconds"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
