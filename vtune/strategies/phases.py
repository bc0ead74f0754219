"""The documented phases as a strategy: one knob after the other, what wins is carried forward, what fails is rolled
back. The journal is the only memory: the same journal comes to the same place of the same plan."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from vtune.analysis.model.predict import Model
from vtune.analysis.repeated_trial import found_in
from vtune.analysis.repeated_words import repeated_before
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment, Limits
from vtune.domain.machine import Machine
from vtune.domain.phases import AskedPhases, Option, OptionOutcome, PhaseRung, Walk
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal
from vtune.knobs.ways import current_settings
from vtune.strategies.foresight import Foresight, fitted
from vtune.strategies.known import Known
from vtune.strategies.train_alike import set_batch
from vtune.strategies.walk_baseline import measure_baseline
from vtune.strategies.walk_candidates import values_of_rung, why_not
from vtune.strategies.walk_end import end_of
from vtune.strategies.walk_path import Ask, Course, Path
from vtune.strategies.walk_phase import walk_phase


@dataclass(frozen=True, slots=True)
class Phases:
    asked: AskedPhases
    experiment: Experiment
    machine: Machine
    # Trials of the journal that count for nothing: they ran another command, config or code than now.
    left_out: frozenset[int] = frozenset()
    # The last trial that the journal had when this call began.
    already: int = 0
    # What others disturbed in this call is not run again: it counts as measured, and decides nothing.
    anyway: bool = False

    def propose(self, history: Sequence[TrialRecord]) -> Proposal | None:
        return self.walk(history).proposal

    def walk(self, history: Sequence[TrialRecord]) -> Walk:
        history = [one for one in history if one.trial not in self.left_out]
        limits, machine = self.experiment.limits, self.machine
        known = Known(
            history,
            named=current_settings(self.experiment),
            ram_limit_bytes=_ram_limit(limits, machine),
            vram_limit=limits.vram,
            already=self.already,
            anyway=self.anyway,
        )
        path = Path(course=Course(self.asked, self.experiment, self.machine))
        asked = _along(path, known)
        if asked is not None:
            path.trying = _trying(path, asked, known)
            return path.walk(asked.proposal())
        path.stage = "done"
        return path.walk(None) if path.stopped is not None else end_of(path, known, history)


def _along(path: Path, known: Known) -> Ask | None:
    """As far as the journal answers; the first question that it does not."""
    story = _story(path, known)
    try:
        ask = next(story)
        while (record := _answer(known, ask)) is not None:
            path.note(record)
            ask = story.send(record)
    except StopIteration:
        return None
    return ask


def _story(path: Path, known: Known) -> Generator[Ask, TrialRecord, None]:
    course, seen = path.course, _Seen(known)

    def foresight() -> Foresight:
        assert path.best is not None
        return seen.from_here(path, path.best)

    yield from measure_baseline(path, foresight)
    if path.stopped is not None:
        return
    path.stage = "phases"
    for phase in course.phases:
        yield from walk_phase(path, phase, foresight)
    path.stage = "options"
    for option in course.asked.plan.options:
        yield from _option(path, option, foresight())


class _Seen:
    """Models of what was known at a moment: of the trials up to the latest that the walk had come to. Later ones must
    not change what was decided before them, or the walk would go back on its way."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._models: dict[int, Model | None] = {}

    def from_here(self, path: Path, best: TrialRecord) -> Foresight:
        machine, until = path.course.machine, max(path.trials)
        records = self._known.until(until)
        if until not in self._models:
            self._models[until] = fitted(records, machine)
        limits = path.course.experiment.limits
        return Foresight(
            self._models[until],
            limits,
            machine.ram_bytes,
            best,
            path.settings,
            repeated=found_in(records),
            own_workers=path.own.get("workers"),
        )


def _option(path: Path, option: Option, foresight: Foresight) -> Generator[Ask, TrialRecord, None]:
    """On top of the user's own configuration, as its author meant it."""
    experiment, own = path.course.experiment, path.own
    values, unknown = values_of_rung(option.settings, own, experiment)
    wanted = {**experiment.settings, **values}
    repeats = foresight.repeats(wanted)
    why = unknown or why_not(values, own, experiment) or (repeated_before(repeats) if repeats is not None else None)
    predicted = foresight.of(wanted) if why is None else None
    why = why or foresight.too_big(wanted)
    trial = None
    if why is None and path.course.asked.options:
        record = yield Ask(
            settings=wanted,
            effective={**own, **values},
            reason=f"option {option.name}",
            origin=f"phase:options:{option.name}",
            predicted=predicted,
        )
        trial = record.trial
    path.options.append(
        OptionOutcome(
            option=option,
            settings=wanted,
            predicted=predicted,
            trial=trial,
            why=why or ("" if trial is not None else "not asked for: --options measures it"),
            repeats=repeats.reason if repeats is not None else None,
            batch=_another_batch(wanted, own),
        )
    )


def _another_batch(wanted: Mapping[str, Scalar], own: Mapping[str, Scalar]) -> tuple[int, int] | None:
    """As far as the settings tell it."""
    now, before = (set_batch({**own, **one}) for one in (wanted, {}))
    return (now, before) if now is not None and before is not None and now != before else None


def _trying(path: Path, ask: Ask, known: Known) -> PhaseRung | None:
    """As it stands among its phase's steps."""
    if ask.turned is None:
        return None
    cut = known.interrupted(ask.settings, ask.origin)
    return PhaseRung(
        turned=dict(ask.turned),
        settings=path.asking(ask.turned),
        state="open" if cut is None else "interrupted",
        why="" if cut is None else "it is run again when the same command goes on",
        trial=None if cut is None else cut.trial,
        predicted=ask.predicted,
    )


def _answer(known: Known, ask: Ask) -> TrialRecord | None:
    if ask.lasting_after is not None:
        return known.answer_lasting(ask.settings, ask.effective, after=ask.lasting_after)
    if ask.like is None or ask.effective is None:
        return known.answer(ask.settings, ask.effective, mended=ask.mended)
    cache, after = ask.like
    return known.answer_read(ask.settings, ask.effective, cache=cache, after=after)


def _ram_limit(limits: Limits, machine: Machine) -> int | None:
    return limits.ram.resolve(machine.ram_bytes) if limits.ram is not None else None
