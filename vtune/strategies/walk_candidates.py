"""What a phase of a plan comes to in this training: its rungs as values, and those that cannot be turned, with why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment, Numerics
from vtune.domain.phases import Phase, RungValue, Times
from vtune.knobs.registry import knob_named
from vtune.knobs.settings import NEED_WORKERS, shown
from vtune.knobs.values import resolve
from vtune.knobs.ways import NoWay, way_of

Place = Literal["above", "below", "useless"]
ORDER: tuple[Numerics, ...] = ("SAME", "CLOSE", "DIFFERENT")
# Climbed from what is set. Less of it may be faster all the same (workers that compete for cores or for a lock, a batch
# past a cliff), where nothing more of it was.
CLIMBED = ("workers", "batch_size")
# They make the effective batch.
SIZES = frozenset(("batch_size", "accumulate_steps"))
# Less of it only takes away.
NEVER_LESS = ("prefetch_factor",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    # Against what is set now; never empty.
    turned: Mapping[str, Scalar]
    # Rungs of the same knobs make one ladder; what is learnt on it says nothing of the phase's other ladders.
    ladder: int = 0
    # Past the plan's documented end.
    beyond: bool = False
    # Less than what was set when the phase began: only where nothing more of it won.
    below: bool = False
    # Why it cannot be tried at all.
    why_not: str | None = None
    # That is because it is relative to what the training runs with by itself, which its first trial may tell.
    unknown: bool = False
    # Or because there are no workers, of which another phase may win some.
    idle: bool = False


def candidates(
    phase: Phase, *, own: Mapping[str, Scalar], now: Mapping[str, Scalar], experiment: Experiment, extend: bool
) -> list[Candidate]:
    """In the order in which they are tried. `own` is what the user's configuration runs with, `now` what has won."""
    rungs = [*((rung, False) for rung in phase.rungs), *((rung, True) for rung in phase.beyond if extend)]
    found: list[Candidate] = []
    for ladder, (_, ladders_rungs) in enumerate(groupby(rungs, key=lambda one: set(one[0]))):
        above, below = list[Candidate](), list[Candidate]()
        for rung, beyond in ladders_rungs:
            turned, unknown = values_of_rung(rung, own, experiment)
            if unknown is None:
                turned = {name: value for name, value in turned.items() if now.get(name) != value}
            place = _place(rung, turned, now) if turned else "useless"
            if place == "useless":
                continue
            never = never_tried(turned, experiment, needs_allow=phase.needs_allow)
            idle = _without_workers(turned, now)
            one = Candidate(
                turned=turned,
                ladder=ladder,
                beyond=beyond,
                below=place == "below",
                why_not=never or unknown or idle,
                unknown=never is None and unknown is not None,
                idle=never is None and idle is not None,
            )
            (below if one.below else above).append(one)
        found += [*above, *reversed(below)]
    return found


def against(candidate: Candidate, now: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """What is left of it to turn, after others have won."""
    return {name: value for name, value in candidate.turned.items() if now.get(name) != value}


def changed(name: str, before: Scalar, value: Scalar) -> str:
    return f"{name} → {shown(value)}" if before is None else f"{name} {shown(before)} → {shown(value)}"


def why_not(
    turned: Mapping[str, Scalar], now: Mapping[str, Scalar], experiment: Experiment, *, needs_allow: bool = False
) -> str | None:
    return never_tried(turned, experiment, needs_allow=needs_allow) or _without_workers(turned, now)


def never_tried(turned: Iterable[str], experiment: Experiment, *, needs_allow: bool = False) -> str | None:
    """Whatever wins. A plan's knobs are the user's word, but for those that it asks to be allowed."""
    named = {*experiment.settings, *(binding.name for binding in experiment.knobs)}
    for name in turned:
        knob = knob_named(name, experiment.knobs)
        way = way_of(knob, experiment)
        if isinstance(way, NoWay):
            told = way.because or f"no key of its config and no flag of its command is known to be {name}"
            return f"{told} (vtune.knobs.{name}.key names it)"
        if needs_allow and name not in named and ORDER.index(experiment.allow) < ORDER.index(knob.numerics):
            return (
                f"{name} is {knob.numerics} ({knob.numerics_reason}): --allow {knob.numerics.lower()} lets it be tried"
            )
    return None


def _without_workers(turned: Mapping[str, Scalar], now: Mapping[str, Scalar]) -> str | None:
    if turned.get("workers", now.get("workers")) != 0:
        return None
    idle = (name for name, value in turned.items() if name in NEED_WORKERS and value != NEED_WORKERS[name])
    return next((f"{name} needs at least one worker" for name in idle), None)


def values_of_rung(
    rung: Mapping[str, RungValue], own: Mapping[str, Scalar], experiment: Experiment
) -> tuple[dict[str, Scalar], str | None]:
    """`own` is what factors are of; where that is not known, why there is no value."""
    rung = {name: value for name, value in rung.items() if own.get(name) is not None or value != Times(factor=1)}
    values = {name: resolve(value, own.get(name), knob_named(name, experiment.knobs)) for name, value in rung.items()}
    unknown = [name for name, value in values.items() if value is None]
    return values, f"the {' and '.join(unknown)} of the training itself is not known" if unknown else None


def _place(rung: Mapping[str, RungValue], turned: Mapping[str, Scalar], now: Mapping[str, Scalar]) -> Place:
    """A factor below one is what the plan's author wants."""
    for name, value in turned.items():
        current = now.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not isinstance(current, int):
            continue
        if value < current and not isinstance(rung[name], Times):
            if name in CLIMBED:
                return "below"
            if name in NEVER_LESS and len(turned) == 1:
                return "useless"
    return "above"
