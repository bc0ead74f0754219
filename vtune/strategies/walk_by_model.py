"""A phase whose rungs the model names, one after the other, asked anew after each."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping

from vtune.domain.effects import Scalar
from vtune.domain.phases import Phase
from vtune.domain.record import TrialRecord
from vtune.knobs.registry import knob_named
from vtune.knobs.values import values_of
from vtune.strategies.foresight import Foresight
from vtune.strategies.walk_candidates import CLIMBED, why_not
from vtune.strategies.walk_liked import is_more, liked
from vtune.strategies.walk_path import BY_MODEL_TRIES, MOST_TRIES, Ask, Path, Underway
from vtune.strategies.walk_rung import Foresee, accumulate_instead, skip, try_rung


def ask_model(path: Path, one: Underway, foresee: Foresee) -> Generator[Ask, TrialRecord, None]:
    knob = one.phase.knob
    tried: set[Scalar] = set()
    too_much: Scalar = None
    slower = made_up = False
    due, measured = BY_MODEL_TRIES, 0
    while due:
        foresight = foresee()
        found = liked(path, one.phase, foresight, tried, too_much=too_much)
        for ruled_out, why in found.skipped:
            tried.add(ruled_out[knob])
            asked = path.asking(ruled_out)
            skip(path, one, ruled_out, why, foresight.of(asked), repeats=foresight.repeats(asked))
        turned = found.turned
        if slower and (turned is None or is_more(turned[knob], path.now.get(knob))):
            turned = _less(path, one.phase, tried, foresight) or turned
        if turned is None:
            one.why = found.why
            return
        tried.add(turned[knob])
        due, measured = due - 1, measured + 1
        one.tries_left = MOST_TRIES - measured
        was = path.now.get(knob)
        last = yield from try_rung(path, one, turned, foresee)
        judged = last.judged
        slower = last.was_slower or (judged.kept and is_more(was, turned[knob]))
        failed = not judged.undecided and (judged.too_big or not last.ran)
        # As long as it wins there is one more; and one, once, for what did not run or fit.
        if judged.kept or (failed and not made_up):
            due = min(max(1, due) if judged.kept else due + 1, one.tries_left)
        made_up = made_up or failed
        if failed and last.took_effect and is_more(turned[knob], was):
            too_much = turned[knob]
        if judged.too_big:
            yield from accumulate_instead(path, one, turned, foresee)


def _less(path: Path, phase: Phase, tried: Collection[Scalar], foresight: Foresight) -> Mapping[str, Scalar] | None:
    """The next value down, after more of it was slower than the model had said."""
    now, course = path.now.get(phase.knob), path.course
    if phase.knob not in CLIMBED:
        return None
    knob = knob_named(phase.knob, course.experiment.knobs)
    values = values_of(knob, course.machine, course.experiment, now=path.own)
    for value in reversed([value for value in values if is_more(now, value) and value not in tried]):
        turned = {phase.knob: value}
        if why_not(turned, path.now, course.experiment, needs_allow=phase.needs_allow) is None:
            asked = path.asking(turned)
            return turned if foresight.too_big(asked) is None and foresight.repeats(asked) is None else None
    return None
