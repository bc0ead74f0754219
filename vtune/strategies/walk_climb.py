"""A phase whose rungs its plan names: climbed from what is set, and left as soon as going on would win nothing."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from vtune.analysis.repeated_words import repeated_before
from vtune.analysis.rungs import Judged
from vtune.domain.effects import Scalar
from vtune.domain.record import TrialRecord
from vtune.knobs.loader import PIN_MEMORY
from vtune.strategies.foresight import WORTH_A_LAUNCH, Foresight
from vtune.strategies.space import nowhere_to_copy_to
from vtune.strategies.walk_candidates import Candidate, against
from vtune.strategies.walk_path import Ask, Path, Underway
from vtune.strategies.walk_rung import Foresee, accumulate_instead, skip, try_rung

# Predicted to be no slower than by this, less of it may be the better choice: a lock is in no model.
ABOUT_EQUAL = 0.95
# Rungs in a row that were no better, after which a ladder is not climbed further; on the way down one is enough.
MISSES = 2


@dataclass(slots=True)
class _Climbed:
    won: bool = False
    misses: int = 0
    last: Judged | None = None
    # More of it was slower, or less of it faster: then less may be faster still, whatever the model says.
    slower: bool = False


def climb(path: Path, one: Underway, foresee: Foresee) -> Generator[Ask, TrialRecord, None]:
    every = path.candidates(one.phase)
    idle = nowhere_to_copy_to(path.course.experiment, path.course.machine, path.baseline)
    for each in every:
        why_not = each.why_not or (idle if set(each.turned) == {PIN_MEMORY.name} else None)
        if why_not is None:
            one.pending.append(each)
        else:
            skip(path, one, each.turned, why_not)
    for ladder in dict.fromkeys(each.ladder for each in one.pending):
        so_far = _Climbed()
        yield from _go(path, one, foresee, so_far, ladder, below=False)
        if not so_far.won:
            yield from _go(path, one, foresee, so_far, ladder, below=True)
        one.pending = [each for each in one.pending if each.ladder != ladder]


def _go(
    path: Path, one: Underway, foresee: Foresee, so_far: _Climbed, ladder: int, *, below: bool
) -> Generator[Ask, TrialRecord, None]:
    """Up one ladder, or down from where it began."""
    so_far.misses, so_far.last = 0, None
    while rest := [each for each in one.pending if (each.ladder, each.below) == (ladder, below)]:
        candidate = rest[0]
        turned = against(candidate, path.now)
        if not turned:  # it has won already
            one.pending.remove(candidate)
            continue
        foresight = foresee()
        if (repeats := foresight.repeats(path.asking(turned))) is not None:
            one.pending.remove(candidate)
            skip(path, one, turned, repeated_before(repeats), repeats=repeats)
            continue
        ends = _seen_enough(candidate, so_far, below=below)
        if ends is None and below and not _may_be_less(path, turned, foresight, slower=so_far.slower):
            ends = "nothing says that less of it is faster"
        if ends is None and not below:
            ends = _hopeless(path, rest, foresight)
        if ends is not None:
            for each in rest:
                one.pending.remove(each)
                if left := against(each, path.now):
                    skip(path, one, left, ends)
            return
        one.pending.remove(candidate)
        too_big = foresight.too_big(path.asking(turned))
        if too_big is not None:
            skip(path, one, turned, too_big, foresight.of(path.asking(turned)))
            yield from accumulate_instead(path, one, turned, foresee)
            continue
        found = yield from try_rung(path, one, turned, foresee)
        so_far.last = found.judged
        if not found.judged.undecided:
            so_far.misses = 0 if found.judged.kept else so_far.misses + 1
        so_far.won = so_far.won or found.judged.kept
        so_far.slower = below or found.was_slower
        if found.judged.too_big:
            yield from accumulate_instead(path, one, turned, foresee)


def _seen_enough(candidate: Candidate, so_far: _Climbed, *, below: bool) -> str | None:
    """By the rungs that were measured."""
    if below:
        return "less of it was no better" if so_far.misses else None
    if so_far.misses >= MISSES:
        return "two in a row were no better"
    if so_far.last is not None and so_far.last.too_big:
        return "nothing that takes more is worth a trial after one that does not fit"
    if candidate.beyond and so_far.last is not None and not so_far.last.kept and not so_far.last.undecided:
        return "past the plan's end only while it wins"
    return None


def _may_be_less(path: Path, turned: Mapping[str, Scalar], foresight: Foresight, *, slower: bool) -> bool:
    if slower:
        return True
    wanted = path.asking(turned)
    gain, most = foresight.gain(wanted), foresight.most(wanted, turned)
    if gain is None or most is None:
        workers, cores = path.now.get("workers"), path.course.machine.cores_to_plan_for
        return "workers" in turned and isinstance(workers, int) and workers > cores
    return most >= WORTH_A_LAUNCH and gain.value > ABOUT_EQUAL


def _hopeless(path: Path, rest: Sequence[Candidate], foresight: Foresight) -> str | None:
    """By the most that this rung and all that follow it on its ladder could bring."""
    best = 0.0
    for each in rest:
        if not (turned := against(each, path.now)):
            continue
        most = foresight.most(path.asking(turned), turned)
        if most is None or most >= WORTH_A_LAUNCH:
            return None
        best = max(best, most)
    return f"by the model of what was measured, at most {best:.2f}× of trial {foresight.before.trial} is to be had"
