"""The user's own configuration first; and where it does not fit, the least change that makes it fit."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping

from vtune.analysis.comparable import has_rate
from vtune.analysis.rungs import Memory, ruled_out, too_big_for
from vtune.domain.effects import Scalar
from vtune.domain.phases import Phase, PhaseRung
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.knobs.settings import shown
from vtune.knobs.ways import current_settings
from vtune.strategies.confirm import LONGER
from vtune.strategies.foresight import Foresight
from vtune.strategies.gentler import FIT_TRIES, gentler
from vtune.strategies.walk_candidates import ORDER, changed, why_not
from vtune.strategies.walk_path import Ask, Path, Underway

ORIGIN = "phase:0:baseline"
FIT = Phase(
    number=0,
    name="fit",
    knob="batch_size",
    risk="none",
    risk_words="what is set does not fit: the least change with which it does",
)


def measure_baseline(path: Path, foresee: Callable[[], Foresight]) -> Generator[Ask, TrialRecord, None]:
    """Ends with something to build on, or with why there is nothing."""
    experiment, ram = path.course.experiment, path.course.machine.ram_bytes
    path.settings = dict(experiment.settings)
    path.own = {**current_settings(experiment), **experiment.settings}
    typed = ", ".join(f"{name}={shown(value)}" for name, value in experiment.settings.items())
    first = Ask(
        settings=path.settings,
        effective=None,
        reason=f"asked for {typed}" if typed else "the current settings",
        origin=ORIGIN,
        mended=True,
    )
    baseline = yield first
    if has_rate(baseline) and baseline.measurement.fed_from_stock:
        path.baseline = path.best = baseline
        window, steps = experiment.window, LONGER * experiment.window.max_steps
        # Steps that the user fixed stay as they are.
        longer = ", for longer" if window.steps < window.max_steps else ""
        again = yield Ask(
            settings=path.settings,
            effective=None,
            reason=f"{first.reason} once more{longer}: trial {baseline.trial} lived on batches that lay ready",
            origin=ORIGIN,
            steps=(steps, steps),
            lasting_after=baseline.trial,
        )
        baseline = again if has_rate(again) else baseline
    path.baseline = path.best = baseline
    path.own = path.now
    too_big = too_big_for(baseline, experiment.limits, ram)
    if too_big is not None:
        yield from _fit(path, *too_big, foresee)
    elif not baseline.on_busy_machine and not (baseline.status is TrialStatus.COMPLETED and has_rate(baseline)):
        said = ruled_out(baseline, experiment.limits, ram)
        path.stopped = f"trial {baseline.trial}, of what is set now, gives nothing to build on: {said}"


def _fit(path: Path, memory: Memory, words: str, foresee: Callable[[], Foresight]) -> Generator[Ask, TrialRecord, None]:
    course, own, asked = path.course, path.own, dict(path.settings)
    limits, ram = course.experiment.limits, course.machine.ram_bytes
    one = Underway(phase=FIT, tries_left=FIT_TRIES)
    path.begun.append(one)
    for turned in gentler(own, memory, course.experiment, turns_batch=_turns_batch(path)):
        if not one.tries_left or one.kept:
            break
        unfit = why_not(turned, own, course.experiment)
        if unfit is not None:
            one.rungs.append(PhaseRung(turned=turned, settings={**asked, **turned}, state="skipped", why=unfit))
            continue
        wanted, foresight = {**asked, **turned}, foresee()
        predicted, too_big = foresight.of(wanted), foresight.too_big(wanted)
        if too_big is not None:
            one.rungs.append(
                PhaseRung(turned=turned, settings=wanted, state="skipped", why=too_big, predicted=predicted)
            )
            continue
        said = ", ".join(changed(name, own.get(name), value) for name, value in turned.items())
        rung = yield Ask(
            settings=wanted,
            effective={**own, **turned},
            reason=f"what is set does not fit: {said}",
            origin=f"phase:0:{next(iter(turned))}",
            predicted=predicted,
            turned=turned,
        )
        one.tries_left -= 1
        why = ruled_out(rung, limits, ram)
        one.rungs.append(
            PhaseRung(
                turned=turned,
                settings=wanted,
                state="kept" if why is None else "undecided" if rung.on_busy_machine else "rejected",
                why=why or "it fits",
                trial=rung.trial,
                predicted=predicted,
            )
        )
        if why is None:
            path.settings, path.best = wanted, rung
            one.kept.update(turned)
    one.tries_left, one.done = 0, True
    number = path.baseline.trial if path.baseline is not None else 0
    one.why = f"what is set does not fit (trial {number}: {words})"
    if one.kept:
        one.why += "; " + ", ".join(f"{name}={shown(value)}" for name, value in one.kept.items()) + " does"
    elif any(rung.trial is not None for rung in one.rungs):
        path.stopped = one.why = f"{one.why}, and nothing gentler that was tried does"
    else:
        path.stopped = one.why = f"{one.why}, and nothing gentler could be tried: {_why_nothing(one, own, memory)}"


def _why_nothing(one: Underway, own: Mapping[str, Scalar], memory: Memory) -> str:
    if one.rungs:
        return one.rungs[0].why
    unknown = [
        name for name in (("batch_size",) if memory == "VRAM" else ("workers", "batch_size")) if own.get(name) is None
    ]
    if not unknown:
        return "there is no less of its workers or its batch that keeps the effective batch"
    fewer = "; --set workers=N tries fewer" if "workers" in unknown else ""
    are = "are" if len(unknown) > 1 else "is"
    return f"its {' and '.join(unknown)} {are} not known, and no loader was seen before it ended{fewer}"


def _turns_batch(path: Path) -> bool:
    """By the plan's word or the user's."""
    by_plan = any("batch_size" in rung for phase in path.course.phases for rung in phase.rungs)
    return by_plan or ORDER.index(path.course.experiment.allow) >= ORDER.index("DIFFERENT")
