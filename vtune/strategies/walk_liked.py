"""What the model would try next of a knob: the value that is predicted to win most, and of equals the one that asks for
less. What earlier phases have settled may stand in its way (a batch too large for so many workers, one that won nothing
while a single worker fed it), so those knobs may be turned back along with it, where that is predicted to be better."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from vtune.analysis.repeated_words import repeated_before
from vtune.domain.effects import Scalar
from vtune.domain.phases import Phase
from vtune.knobs.registry import knob_named
from vtune.knobs.settings import NEED_WORKERS
from vtune.knobs.values import values_of
from vtune.strategies.foresight import Foresight
from vtune.strategies.reachable import reachable
from vtune.strategies.walk_candidates import why_not
from vtune.strategies.walk_path import Path

# By how much it has to be hoped for more, at the upper end of what is predicted.
HOPED_FOR = 1.01
# Predictions this close are equal.
EQUAL = 0.99
# By how much turning others along with it has to be better than without.
ALONG = 1.03
# Of fitting: below it, a trial is a question.
SURE = 0.9
# A batch may be so many times as large as one that ran: past it, no line through those that did tells of a cliff.
BATCH_STEP = 4
# Knobs that stand in each other's way; toggles win what they win whatever the others are.
TOGETHER = ("workers", "batch_size", "prefetch_factor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Liked:
    turned: Mapping[str, Scalar] | None
    # Values that were ruled out, and why.
    skipped: tuple[tuple[Mapping[str, Scalar], str], ...] = ()
    # Where there is none.
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hope:
    value: Scalar
    turned: Mapping[str, Scalar]
    # Predicted over the best so far; None where nobody knows.
    gain: float | None
    chance_to_fit: float = 1.0

    @property
    def worth(self) -> float:
        return self.chance_to_fit * ((self.gain or 1.0) - 1)


def liked(
    path: Path, phase: Phase, foresight: Foresight, tried: Collection[Scalar], *, too_much: Scalar = None
) -> Liked:
    """`too_much`: a value of it that did not fit, or failed, in this very phase: more of it is not looked at."""
    knob, now = knob_named(phase.knob, path.course.experiment.knobs), path.now
    others = _others(path, phase)
    skipped: list[tuple[Mapping[str, Scalar], str]] = []
    hopeful: list[_Hope] = []
    values = values_of(knob, path.course.machine, path.course.experiment, now=path.own)
    for value in values:
        alone = {knob.name: value}
        if value == now.get(knob.name) or value in tried or not _is_within_reach(alone, path):
            continue
        if is_more(value, too_much):
            continue
        why = why_not(alone, now, path.course.experiment, needs_allow=phase.needs_allow)
        turned = alone if why is not None else _with_others(path, alone, others, foresight)
        if path.comes_to(path.asking(turned)) in path.judged:
            continue
        if why is None and (repeats := foresight.repeats(path.asking(turned))) is not None:
            why = repeated_before(repeats)
        why = why or foresight.too_big(path.asking(turned))
        if why is not None:
            skipped.append((turned, why))
        elif (hope := _hope(path, value, turned, foresight)) is not None:
            hopeful.append(hope)
    if hopeful:
        return Liked(turned=_best(hopeful, now.get(knob.name)).turned, skipped=tuple(skipped))
    why = "no other value of it is predicted to win"
    if not values:
        why = f"which values of {knob.name} are worth a trial here is not known"
    elif skipped and not tried:
        why = skipped[0][1]
    return Liked(turned=None, skipped=tuple(skipped), why=why)


def _others(path: Path, phase: Phase) -> Sequence[Mapping[str, Scalar]]:
    """Whole settings of the knobs that earlier phases have had their turn with."""
    course = path.course
    earlier = [
        replace(one, rungs=(), beyond=(), by_model=True, knob=name)
        for one in course.phases
        for name in ({one.knob} if one.by_model else sorted(set(itertools.chain.from_iterable(one.rungs))))
        if one.number < phase.number and name in TOGETHER and name != phase.knob
    ]
    if phase.knob not in TOGETHER or not earlier:
        return ()
    return reachable(earlier, own=path.own, won=path.settings, experiment=course.experiment, machine=course.machine)


def _with_others(
    path: Path, alone: Mapping[str, Scalar], others: Sequence[Mapping[str, Scalar]], foresight: Foresight
) -> Mapping[str, Scalar]:
    best = foresight.fastest([each for one in others if _is_within_reach(each := {**one, **alone}, path)])
    if best is None:
        return alone
    now = path.now
    turned = {name: best.get(name, path.own.get(name)) for name in (*TOGETHER, *alone)}
    turned = {name: value for name, value in turned.items() if value is not None and now.get(name) != value}
    if turned.get("workers") == 0:
        turned = {name: value for name, value in turned.items() if name not in NEED_WORKERS}
    wanted = path.asking(alone)
    gain = foresight.gain(path.asking(turned), over=wanted)
    better = gain is not None and gain.value > ALONG
    # Also where it does not fit without.
    return turned if better or foresight.chance_to_fit(wanted) < 0.5 else alone


def _hope(path: Path, value: Scalar, turned: Mapping[str, Scalar], foresight: Foresight) -> _Hope | None:
    wanted = path.asking(turned)
    most, gain = foresight.most(wanted, turned), foresight.gain(wanted)
    if (most is not None and most <= HOPED_FOR) or (gain is not None and gain.value < 1):
        return None
    return _Hope(
        value=value,
        turned=turned,
        gain=gain.value if gain is not None else None,
        chance_to_fit=foresight.chance_to_fit(wanted),
    )


def _best(hopeful: Sequence[_Hope], current: Scalar) -> _Hope:
    known = [one for one in hopeful if one.gain is not None]
    if not known:
        # Nobody knows: the next one up, or the first that there is.
        up = [one for one in hopeful if is_more(one.value, current)]
        return up[0] if up else hopeful[0]
    # What may not fit is found out from its small end: one step tells what the next takes.
    doubtful = [one for one in known if one.chance_to_fit < SURE]
    allowed = [one for one in known if one not in doubtful[1:]]
    most = max(one.worth for one in allowed)
    return next(one for one in allowed if 1 + one.worth >= EQUAL * (1 + most))


def _is_within_reach(alone: Mapping[str, Scalar], path: Path) -> bool:
    """Of batches none that is smaller than the user's, and none that is far beyond what has run."""
    value, own, now = (of.get("batch_size") for of in (alone, path.own, path.now))
    if not isinstance(value, int) or not isinstance(own, int) or not isinstance(now, int):
        return True
    return own <= value <= BATCH_STEP * max(own, now)


def is_more(value: Scalar, current: Scalar) -> bool:
    return isinstance(value, int) and isinstance(current, int) and value > current
