"""The scout run of a study, beside its trials: before which one it ran, for how long, and what its steps used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vtune.domain.experiment import Experiment
from vtune.domain.record import Measurement
from vtune.foreign.read import read_json
from vtune.journal.fingerprint import fingerprint_of
from vtune.journal.paths import StudyPaths
from vtune.journal.records import consumed_from_json


def scouted(study: StudyPaths) -> tuple[int, float] | None:
    try:
        number = int(read_json(study.scout.spec)["trial"])
        return number, float(read_json(study.scout.outcome)["seconds"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def scouted_measurement(experiment: Experiment, study: StudyPaths) -> Measurement | None:
    """Of the training's own settings, as far as a scout run saw its steps; older ones do not tell."""
    try:
        answer: Mapping[str, Any] = read_json(study.scout_result)
        if answer["question"] != fingerprint_of(experiment):
            return None
        return Measurement(
            effective_batch=answer["effective_batch"],
            consumed=consumed_from_json(answer["consumed"]),
            effective_settings=dict(answer["settings"]),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
