"""One phase of a plan, from its first rung to the sentence about it."""

from __future__ import annotations

from collections.abc import Generator

from vtune.domain.phases import Phase
from vtune.domain.record import TrialRecord
from vtune.knobs.settings import shown
from vtune.strategies.walk_by_model import ask_model
from vtune.strategies.walk_climb import climb
from vtune.strategies.walk_path import Ask, Path, Underway
from vtune.strategies.walk_rung import Foresee


def walk_phase(path: Path, phase: Phase, foresee: Foresee) -> Generator[Ask, TrialRecord, None]:
    one = Underway(phase=phase)
    path.begun.append(one)
    if phase.by_model:
        yield from ask_model(path, one, foresee)
    else:
        yield from climb(path, one, foresee)
    one.pending, one.tries_left = [], 0
    one.why, one.done = told(one), True


def told(one: Underway) -> str:
    if one.kept:
        words = ", ".join(f"{name}={shown(value)}" for name, value in one.kept.items())
        gain = 1.0
        for rung in one.rungs:
            gain *= rung.gain if rung.state == "kept" and rung.gain is not None else 1.0
        return f"{words}: {gain:.3g}× of what had won before"
    tried = [rung for rung in one.rungs if rung.state == "rejected"]
    if tried:
        return f"nothing of it was better: {tried[-1].why}" if len(tried) == 1 else "nothing of it was better"
    if undecided := [rung for rung in one.rungs if rung.state == "undecided"]:
        return undecided[0].why
    skipped = [rung for rung in one.rungs if rung.state == "skipped"]
    if skipped or one.why:
        return skipped[0].why if skipped else one.why
    if not one.phase.rungs and not one.phase.by_model:
        return "nothing of it is turned by vtune"
    return "none of its values lies beyond what is set already"
