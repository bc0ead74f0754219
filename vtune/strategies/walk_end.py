"""The end of a walk: its winner is confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vtune.analysis.comparable import settings_of
from vtune.domain.phases import Walk, rolled_back
from vtune.domain.record import TrialRecord
from vtune.strategies.confirm import Found, confirmation_of
from vtune.strategies.known import Known
from vtune.strategies.reachable import reachable
from vtune.strategies.walk_path import Path
from vtune.strategies.walk_phase import told


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
        rolled_back=rolled_back([rung for one in path.begun for rung in one.rungs]),
        candidates=reachable(
            course.phases, own=path.own, won=path.settings, experiment=course.experiment, machine=course.machine
        ),
    )
    confirmed = confirmation_of(found, known, history, launches=course.asked.confirm)
    path.trials = list(confirmed.trials)
    path.settings, path.best = confirmed.settings, confirmed.best
    _keep_what_was_shown(path, known)
    if confirmed.proposal is None:
        return path.walk(None)
    path.stage = "confirm"
    return path.walk(confirmed.proposal, confirmed.left)


def _keep_what_was_shown(path: Path, known: Known) -> None:
    """A step that two launches did not show to be faster, and those that confirm did."""
    if path.best is None:
        return
    won = {one.trial for one in known.records if settings_of(one) == settings_of(path.best)}
    for one in path.begun:
        for at, rung in enumerate(one.rungs):
            if rung.state == "rejected" and rung.gain is not None and rung.trial in won:
                one.rungs[at] = replace(rung, state="kept", why=f"{rung.why}; the launches that confirm show it")
                one.kept.update(rung.turned)
                one.why = told(one)
