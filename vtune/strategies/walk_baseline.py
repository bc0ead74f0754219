"""The user's own configuration first; and where it does not fit, the least change that makes it fit."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping

from vtune.analysis.comparable import has_rate
from vtune.analysis.rungs import Memory, ruled_out, too_big_for
from vtune.domain.effects import Scalar
from vtune.domain.phases import Phase, PhaseRung
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.knobs.settings import shown
from vtune.knobs.ways import current_settings
from vtune.strategies.foresight import Foresight
from vtune.strategies.walk_candidates import ORDER, changed, why_not
from vtune.strategies.walk_path import Ask, Path, Underway

# Launches that may be spent on making it fit.
FIT_TRIES = 4
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
    baseline = yield Ask(
        settings=path.settings,
        effective=None,
        reason=f"asked for {typed}" if typed else "the current settings",
        origin="phase:0:baseline",
    )
    path.baseline = path.best = baseline
    path.own = path.now
    too_big = too_big_for(baseline, experiment.limits, ram)
    if too_big is not None:
        yield from _fit(path, *too_big, foresee)
    elif baseline.status is not TrialStatus.COMPLETED or not has_rate(baseline):
        said = ruled_out(baseline, experiment.limits, ram)
        path.stopped = f"trial {baseline.trial}, of what is set now, gives nothing to build on: {said}"


def _fit(path: Path, memory: Memory, words: str, foresee: Callable[[], Foresight]) -> Generator[Ask, TrialRecord, None]:
    course, own, asked = path.course, path.own, dict(path.settings)
    limits, ram = course.experiment.limits, course.machine.ram_bytes
    one = Underway(phase=FIT, tries_left=FIT_TRIES)
    path.begun.append(one)
    for turned in _gentler(path, memory):
        if not one.tries_left or one.kept:
            break
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
        )
        one.tries_left -= 1
        why = ruled_out(rung, limits, ram)
        one.rungs.append(
            PhaseRung(
                turned=turned,
                settings=wanted,
                state="kept" if why is None else "rejected",
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
    else:
        path.stopped = one.why = f"{one.why}, and nothing gentler that was tried does"


def _gentler(path: Path, memory: Memory) -> Iterator[dict[str, Scalar]]:
    """The least change first. The device's memory goes with the batch; the machine's with the workers, and with what
    lies ready in their queues."""
    for turned in [*([] if memory == "VRAM" else _less_loading(path.own)), *_smaller_batches(path)]:
        if why_not(turned, path.own, path.course.experiment) is None:
            yield turned


def _less_loading(own: Mapping[str, Scalar]) -> Iterator[dict[str, Scalar]]:
    workers, prefetch = own.get("workers"), own.get("prefetch_factor")
    if not isinstance(workers, int) or not workers:
        return
    if isinstance(prefetch, int) and prefetch > 1:
        yield {"prefetch_factor": 1}
    while workers > 1:
        workers //= 2
        yield {"workers": workers}


def _smaller_batches(path: Path) -> Iterator[dict[str, Scalar]]:
    """With as many more of them to an optimizer step; alone only where the plan or the user lets the effective batch
    change."""
    experiment, own = path.course.experiment, path.own
    batch, times = own.get("batch_size"), own.get("accumulate_steps", 1)
    turns_batch = any("batch_size" in rung for phase in path.course.phases for rung in phase.rungs)
    allowed = turns_batch or ORDER.index(experiment.allow) >= ORDER.index("DIFFERENT")
    for by in (2, 4, 8, 16):
        if not isinstance(batch, int) or batch % by or not isinstance(times, int):
            return
        whole: dict[str, Scalar] = {"batch_size": batch // by, "accumulate_steps": times * by}
        if why_not(whole, own, experiment) is None:
            yield whole
        elif allowed:
            yield {"batch_size": batch // by}
