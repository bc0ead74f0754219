"""The end of a walk: its winner is confirmed."""

from __future__ import annotations

from collections.abc import Sequence

from vtune.domain.phases import Walk
from vtune.domain.record import TrialRecord
from vtune.strategies.confirm import Found, confirmation_of
from vtune.strategies.known import Known
from vtune.strategies.walk_path import Path


def end_of(path: Path, known: Known, history: Sequence[TrialRecord]) -> Walk:
    course = path.course
    found = Found(
        experiment=course.experiment,
        machine=course.machine,
        baseline=path.baseline,
        own=path.own,
        trials=tuple(path.trials),
        winner=path.best,
        settings=path.settings,
    )
    confirmed = confirmation_of(found, known, history, launches=course.asked.confirm)
    path.trials = list(confirmed.trials)
    path.settings, path.best = confirmed.settings, confirmed.best
    if confirmed.proposal is None:
        return path.walk(None)
    path.stage = "confirm"
    return path.walk(confirmed.proposal, confirmed.left)
