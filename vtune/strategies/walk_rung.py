"""One rung of a phase: asked of the journal, judged against what had won before it, and noted. Each question is
yielded, and its answer sent back."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace

from vtune.analysis.comparable import contradicting, has_rate, same_cache
from vtune.analysis.race import DELTA
from vtune.analysis.rungs import Judged, batch_words, judge_rung
from vtune.domain.choice import Ratio
from vtune.domain.effects import Scalar
from vtune.domain.numbers import times
from vtune.domain.phases import PhaseRung
from vtune.domain.prediction import Prediction
from vtune.domain.record import TrialRecord
from vtune.domain.repeated import Repeated, Repeats
from vtune.domain.trial import TrialStatus
from vtune.strategies.foresight import Foresight
from vtune.strategies.walk_candidates import SIZES, Candidate, against, changed, why_not
from vtune.strategies.walk_path import Ask, Path, Underway

Foresee = Callable[[], Foresight]


@dataclass(frozen=True, slots=True)
class Tried:
    judged: Judged
    # What the trials before it had promised of it.
    promised: Ratio | None
    # To a rate, whatever it was.
    ran: bool
    # Of what did not, nothing is known, and so nothing of what asks for more.
    took_effect: bool

    @property
    def was_slower(self) -> bool:
        """Shown to be, or slower where the model was sure that it is not: a lock, a machine that it does not know."""
        ratio = self.judged.ratio
        if ratio is None or ratio.value >= 1:
            return False
        floor = self.promised.ci95[0] if self.promised is not None and self.promised.ci95 is not None else 0.0
        return ratio.shown_slower or ratio.value < floor


def try_rung(
    path: Path, one: Underway, turned: Mapping[str, Scalar], foresee: Foresee, *, instead_of: Scalar = None
) -> Generator[Ask, TrialRecord, Tried]:
    before, now = path.best, path.now
    assert before is not None
    number, phases = one.phase.number, path.course.phases
    words = ", ".join(changed(name, now.get(name), value) for name, value in turned.items())
    place = f" in place of batch_size {instead_of}" if instead_of is not None else ""
    wanted = path.asking(turned)
    foresight, latest = foresee(), max(path.trials)
    predicted, promised = foresight.of(wanted), foresight.gain(wanted)
    path.judged.add(path.comes_to(wanted))
    rung = yield Ask(
        settings=wanted,
        effective={**now, **turned},
        reason=f"phase {number} of {len(phases)}, {words}{place}",
        origin=f"phase:{number}:{one.phase.knob}",
        predicted=predicted,
        steps=one.phase.steps,
        turned=turned,
    )
    before = yield from _read_alike(path, one, rung, before, turned)
    course = path.course
    judged = judge_rung(
        rung,
        before,
        success=one.phase.success,
        limits=course.experiment.limits,
        ram_total_bytes=course.machine.ram_bytes,
        cores=course.machine.cores,
        of_few=one.phase.by_model,
    )
    # Of a trial that it knew the model promises nothing.
    if rung.trial > latest and _as_promised(judged, promised):
        judged = replace(judged, kept=True, why=_kept_words(judged, promised, before))
    resized = judged.kept and path.baseline is not None and not SIZES.isdisjoint(turned)
    larger = batch_words(rung, path.baseline) if resized and path.baseline is not None else ""
    one.rungs.append(
        PhaseRung(
            turned=dict(turned),
            settings=wanted,
            state="kept" if judged.kept else "undecided" if judged.undecided else "rejected",
            why=judged.why + larger,
            trial=rung.trial,
            gain=judged.ratio.value if judged.ratio is not None else None,
            predicted=predicted if predicted is not None else rung.predicted,
            not_judged=judged.not_judged,
            repeats=_repeats(rung),
        )
    )
    if judged.kept:
        path.settings, path.best = wanted, rung
        one.kept.update(turned)
    took_effect = not contradicting(wanted, rung.measurement.effective_settings)
    return Tried(judged, promised, has_rate(rung), took_effect)


def _repeats(rung: TrialRecord) -> Repeats | None:
    found = rung.measurement.repeated
    return found.reason if found is not None and rung.status is TrialStatus.INVALID else None


def _read_alike(
    path: Path, one: Underway, rung: TrialRecord, before: TrialRecord, turned: Mapping[str, Scalar]
) -> Generator[Ask, TrialRecord, TrialRecord]:
    """What it is compared with: where the two read their data otherwise, one from a cold cache and one from a warm,
    what had won is launched once more. That launch stands for it from then on: the next ones will read like it."""
    if not has_rate(rung) or same_cache(rung, before):
        return before
    regimes = f"trial {before.trial} read its data {before.measurement.cache}, trial {rung.trial}"
    again = yield Ask(
        settings=path.settings,
        effective=path.now,
        reason=f"what won so far once more: {regimes} {rung.measurement.cache}",
        origin=f"phase:{one.phase.number}:{one.phase.knob}",
        steps=one.phase.steps,
        like=(rung.measurement.cache, rung.trial),
        turned=turned,
    )
    if has_rate(again):
        path.best = again
        return again
    return before


def _kept_words(judged: Judged, promised: Ratio | None, before: TrialRecord) -> str:
    both = [times(one.value, one.ci95) for one in (judged.ratio, promised) if one is not None]
    return f"{both[0]} of trial {before.trial}, within what the trials before it had promised ({both[-1]})"


def _as_promised(judged: Judged, promised: Ratio | None) -> bool:
    """Two launches show no gain of less than some 5 %. What the trials before it had promised for sure, and it has kept
    as far as two launches can tell, is shown by both together."""
    if judged.kept or judged.ratio is None or promised is None:
        return False
    least = max(1 + DELTA, promised.ci95[0] if promised.ci95 is not None else 0.0)
    return promised.shown_faster and promised.value > 1 + DELTA and judged.ratio.value > least


def accumulate_instead(
    path: Path, one: Underway, turned: Mapping[str, Scalar], foresee: Foresee
) -> Generator[Ask, TrialRecord, None]:
    """Half of the batch, and twice the batches to one optimizer step: the effective batch that did not fit at once."""
    batch, times = turned.get("batch_size"), path.now.get("accumulate_steps", 1)
    if not one.phase.accumulate_instead or not isinstance(batch, int) or batch % 2 or not isinstance(times, int):
        return
    wanted: dict[str, Scalar] = {"batch_size": batch // 2, "accumulate_steps": 2 * times}
    smaller = against(Candidate(turned=wanted), path.now)
    if not smaller or why_not(smaller, path.now, path.course.experiment) is not None:
        return
    if foresee().too_big(path.asking(smaller)) is None:
        yield from try_rung(path, one, smaller, foresee, instead_of=batch)


def skip(
    path: Path,
    one: Underway,
    turned: Mapping[str, Scalar],
    why: str,
    predicted: Prediction | None = None,
    *,
    repeats: Repeated | None = None,
) -> None:
    one.rungs.append(
        PhaseRung(
            turned=dict(turned),
            settings=path.asking(turned),
            state="skipped",
            why=why,
            predicted=predicted,
            repeats=repeats.reason if repeats is not None else None,
        )
    )
