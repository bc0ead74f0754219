"""The end of a walk: its winner is confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vtune.analysis.comparable import settings_of
from vtune.analysis.repeated_trial import found_in, would_repeat
from vtune.analysis.same_training import another_training
from vtune.domain.phases import Walk, rolled_back
from vtune.domain.record import TrialRecord
from vtune.knobs.registry import same_knobs
from vtune.strategies.confirm import Found, confirmation_of
from vtune.strategies.known import Known
from vtune.strategies.reachable import reachable
from vtune.strategies.walk_path import Path
from vtune.strategies.walk_phase import told


def end_of(path: Path, known: Known, history: Sequence[TrialRecord]) -> Walk:
    course, repeated = path.course, found_in(known.told)
    found = Found(
        experiment=course.experiment,
        machine=course.machine,
        baseline=path.baseline,
        own=path.own,
        trials=tuple(path.trials),
        winner=path.best,
        settings=path.settings,
        rolled_back=rolled_back([rung for one in path.begun for rung in one.rungs]),
        candidates=[
            one
            for one in reachable(
                course.phases, own=path.own, won=path.settings, experiment=course.experiment, machine=course.machine
            )
            if would_repeat(repeated, one.get("workers"), path.own.get("workers")) is None
        ],
    )
    confirmed = confirmation_of(found, known, history, launches=course.asked.confirm)
    path.trials = list(confirmed.trials)
    path.settings, path.best = confirmed.settings, confirmed.best
    if confirmed.proposal is None:
        _judged_again(path, known)
    if confirmed.proposal is None:
        return path.walk(None)
    path.stage = "confirm"
    return path.walk(confirmed.proposal, confirmed.left)


def _judged_again(path: Path, known: Known) -> None:
    """By all launches, and over all others: a step that two of them did not show to be faster may be by now, and one
    that makes another training, on which others were built, may not be over what trains the same."""
    best, own = path.best, path.baseline
    if best is None or own is None:
        return
    same = same_knobs(path.course.experiment.knobs)
    of = {one.trial: one for one in known.records}
    won = {one.trial for one in known.records if settings_of(one) == settings_of(best)}
    is_other = another_training(best, own, same)
    for one in path.begun:
        for at, rung in enumerate(one.rungs):
            if rung.trial is None or (rung.gain is None and rung.state != "undecided"):
                continue
            if rung.state in ("rejected", "undecided") and rung.trial in won:
                one.rungs[at] = replace(rung, state="kept", why=f"{rung.why}; the launches that confirm show it")
                one.kept.update(rung.turned)
            elif rung.state == "kept" and not is_other and another_training(of[rung.trial], own, same):
                why = f"{rung.why}; not shown over trial {best.trial}, which trains as your own settings do"
                one.rungs[at] = replace(rung, state="rejected", why=why)
                one.kept = {name: value for name, value in one.kept.items() if rung.turned.get(name) != value}
            else:
                continue
            one.why = told(one)
