"""The loop: propose → run → measure → diagnose → record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from vtune.analysis.renewed import with_launches
from vtune.domain.effects import FindCeiling, Scalar
from vtune.domain.experiment import Experiment, Window
from vtune.domain.machine import Machine
from vtune.domain.progress import TrialDisturbed, TrialFinished, TrialStarted, TuningEvent
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal, TrialOutcome, TrialStatus
from vtune.errors import StorageError
from vtune.execution.ceiling import ceiling_asked, ceiling_proposal, ceiling_watch
from vtune.execution.cold_data import keep_cold
from vtune.execution.engines.engine import Engine
from vtune.execution.named_data import Prints, data_evidence, data_prints
from vtune.execution.observer import Watch
from vtune.execution.prepare import prepare_trial
from vtune.execution.quiet import Quiet, cores_wanted, disturbed, ignored_note, wait_for_quiet
from vtune.execution.read import read_trial
from vtune.execution.refuse import refusal_of, refused_record
from vtune.execution.scout import ScoutFailed, forget_loader, keep_as_trial, known_loader, learn_loader
from vtune.execution.written import disk_note, list_elsewhere, trouble_notes, written_notes
from vtune.files import MAKE_ROOM, refused
from vtune.journal.ignored_flags import heeding, learnt_from
from vtune.journal.journal import Journal
from vtune.journal.paths import StudyPaths, TrialPaths
from vtune.journal.renewals import read_renewals
from vtune.journal.study import Study
from vtune.journal.trial_files import saw_loader
from vtune.knobs.plan import batch_factor, needs_scout
from vtune.knobs.registry import same_knobs
from vtune.one_core import on_one_core
from vtune.strategies.left_out import left_out as left_out_of
from vtune.telemetry.memory import shared_memory

# Of a trial whose scout run failed: its settings were never run with.
BEFORE_TURNING = "in the run that was to tell which loader feeds its steps, with nothing turned yet"
# Its folder makes room for the next one, and no record but this tells of it.
IN_THE_SCOUT_RUN = "in the run before, which told which loader feeds its steps"


class Strategy(Protocol):
    def propose(self, history: Sequence[TrialRecord]) -> Proposal | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What every trial of a study shares."""

    study: Study
    experiment: Experiment
    engine: Engine
    machine: Machine
    notify: Callable[[TuningEvent], None]
    # How other programs on the cores are dealt with; None where nobody looks for them.
    quiet: Quiet | None = None

    @property
    def anyway(self) -> bool:
        return self.quiet is not None and self.quiet.anyway


@on_one_core()
def tune(tuning: Tuning, strategy: Strategy) -> list[TrialRecord]:
    """Returns the whole history, the new records last."""
    history, renewals = recorded(tuning.study.paths, tuning.experiment), read_renewals(tuning.study.paths)
    others = left_out_of(history, heeding(tuning.experiment, tuning.study.paths), tuning.study.paths)
    again = _Again(tuning.quiet)
    while True:
        proposal = strategy.propose(history)  # None when there is nothing worth measuring
        if proposal is None or again.asks_in_vain(proposal):
            return history
        await_quiet(tuning, proposal.settings)
        record = measure_one(tuning, proposal, history, left_out=others)
        _keep(tuning, record)
        # While trials are measured no launch runs: none renews a promise meanwhile.
        record = with_launches([*history, record], renewals, same_knobs(tuning.experiment.knobs))[-1]
        history.append(record)
        tuning.notify(TrialFinished(record=record))
        if record.status is TrialStatus.INTERRUPTED:
            return history
        again.note(tuning, proposal, record)


def recorded(study: StudyPaths, experiment: Experiment) -> list[TrialRecord]:
    """The journal's trials, with the rare pauses that launches have shown in their projections."""
    return with_launches(Journal(study.journal).read(), read_renewals(study), same_knobs(experiment.knobs))


class _Again:
    """What comes of trials that other programs disturbed. The strategy does not count them, and asks again."""

    def __init__(self, quiet: Quiet | None) -> None:
        self._quiet = quiet
        self._disturbed: list[Proposal] = []

    def note(self, tuning: Tuning, proposal: Proposal, record: TrialRecord) -> None:
        others = record.measurement.others
        if self._quiet is None or others is None or not record.on_busy_machine:
            self._disturbed = []
            return
        self._disturbed.append(proposal)
        if tuning.anyway:
            return
        if len(self._disturbed) >= self._quiet.launches:
            raise disturbed(record, hint=self._quiet.hint)
        tuning.notify(TrialDisturbed(trial=record.trial, others=others))

    def asks_in_vain(self, proposal: Proposal) -> bool:
        """Measured on a busy machine, it decided nothing, and would not once more."""
        last = self._disturbed[-1] if self._disturbed else None
        return (
            self._quiet is not None
            and self._quiet.anyway
            and last is not None
            and (proposal.settings, proposal.race, proposal.origin) == (last.settings, last.race, last.origin)
        )


def await_quiet(tuning: Tuning, settings: Mapping[str, Scalar]) -> None:
    if tuning.quiet is not None:
        wanted = cores_wanted(tuning.experiment, settings, tuning.machine)
        wait_for_quiet(tuning.quiet, tuning.machine.cores, wanted, tuning.notify)


def tune_until_stopped(tuning: Tuning, strategy: Strategy) -> tuple[list[TrialRecord], bool]:
    """And whether it was interrupted: within a trial, which is then kept as such, or between two. The second interrupt
    of a trial passes: whoever presses it again wants out."""
    before, runs = len(tuning.study.journal.read()), False

    def pass_on(event: TuningEvent) -> None:
        nonlocal runs
        if isinstance(event, TrialStarted | TrialFinished):
            runs = isinstance(event, TrialStarted)
        tuning.notify(event)

    try:
        history = tune(replace(tuning, notify=pass_on), strategy)
    except KeyboardInterrupt:
        if runs:
            raise
        return recorded(tuning.study.paths, tuning.experiment), True
    return history, len(history) > before and history[-1].status is TrialStatus.INTERRUPTED


def _keep(tuning: Tuning, record: TrialRecord) -> None:
    try:
        tuning.study.journal.append(record)
    except OSError as error:
        what = f"the trial was measured, but {tuning.study.paths.journal} cannot be written"
        raise refused(error, what, record=record) from error


def measure_one(
    tuning: Tuning,
    proposal: Proposal,
    history: Sequence[TrialRecord] = (),
    *,
    left_out: Collection[int] = frozenset(),
) -> TrialRecord:
    """`left_out`: trials of `history` that ran another command, config or code. They are no evidence for this one."""
    earlier = [record for record in history if record.trial not in left_out]
    tuning = replace(tuning, experiment=heeding(tuning.experiment, tuning.study.paths))
    shm = shared_memory()
    free = shm.free_bytes if shm is not None else None
    refusal = refusal_of(tuning.experiment, proposal, earlier, shm_free_bytes=free)
    if refusal is not None:
        number = tuning.study.next_trial()
        tuning.study.new_trial_folder(number)
        return refused_record(tuning.experiment, proposal, number, refusal)
    data = _data(tuning)
    if not needs_scout(proposal.settings, tuning.experiment):
        return _run(tuning, proposal, earlier, history=history, train_loader=None, data=data)
    study, watch = tuning.study, _watch(tuning, proposal)
    known = known_loader(tuning.experiment, study.paths)
    if known is not None:
        record = _run(tuning, proposal, earlier, history=history, train_loader=known.key, data=data)
        if record.status is not TrialStatus.INVALID or saw_loader(study.paths.trial(record.trial), known.key):
            return record
        # It has moved, in a file that the command does not name. The journal keeps what happened.
        _keep(tuning, record)
        forget_loader(study.paths)
        data = _data(tuning)
    number = study.next_trial()
    learnt = learn_loader(tuning.experiment, study.paths, proposal, number, tuning.engine, watch, tuning.notify)
    if isinstance(learnt, ScoutFailed):
        folder = keep_as_trial(study.paths, number)
        record = read_trial(tuning.experiment, tuning.machine, learnt.spec, learnt.outcome, folder)
        _check_disk(record, learnt.outcome, folder)
        notes = (*record.notes, *_file_notes(folder, Path(learnt.spec.cwd), study.paths.root))
        return replace(record, detail=f"{BEFORE_TURNING}: {record.detail or 'no detail is known'}", notes=notes)
    scouted = [*trouble_notes(study.paths.scout), *list_elsewhere(study.paths.scout, study.paths.root)]
    record = _run(tuning, proposal, earlier, history=history, train_loader=learnt.key, data=data)
    return replace(record, notes=(*record.notes, *(f"{IN_THE_SCOUT_RUN}: {note}" for note in scouted)))


def find_ceiling(tuning: Tuning, record: TrialRecord) -> TrialRecord | None:
    """One more launch of a trial that completed, fed from memory; None where no loader was seen to feed its steps."""
    tuning = replace(tuning, experiment=heeding(tuning.experiment, tuning.study.paths))
    proposal = ceiling_proposal(record, tuning.experiment.settings)
    asked = ceiling_asked(record, _watch(tuning, proposal))
    if asked is None:
        return None
    await_quiet(tuning, proposal.settings)
    found = _run(tuning, proposal, (), train_loader=asked.loader, ceiling=asked, data=_data(tuning))
    _keep(tuning, found)
    tuning.notify(TrialFinished(record=found))
    return found


def _run(
    tuning: Tuning,
    proposal: Proposal,
    earlier: Sequence[TrialRecord],
    *,
    train_loader: str | None,
    data: Prints,
    history: Sequence[TrialRecord] = (),
    ceiling: FindCeiling | None = None,
) -> TrialRecord:
    """`data`: as they were before anything of it ran. `history`: with trials that ran other code, which read the same
    files; they are no part of `earlier`."""
    number = tuning.study.next_trial()
    folder = tuning.study.new_trial_folder(number)
    spec, notes = prepare_trial(
        tuning.experiment,
        tuning.study.paths,
        proposal,
        number=number,
        train_loader=train_loader,
        folder=folder,
        ceiling=ceiling,
    )
    tuning.notify(TrialStarted(spec=spec))
    cwd, results = Path(spec.cwd), tuning.study.paths.root.parent
    watch = replace(_watch(tuning, proposal), earlier=tuple(earlier))
    watch = watch if ceiling is None else ceiling_watch(ceiling, watch)
    notes = (*notes, *keep_cold(tuning.experiment, tuning.machine, history, results))
    outcome = tuning.engine.run(spec, folder, watch, tuning.notify)
    record = read_trial(tuning.experiment, tuning.machine, spec, outcome, folder, earlier=earlier)
    _check_disk(record, outcome, folder)
    record = learnt_from(record, tuning.experiment, tuning.study.paths)
    notes = (*_file_notes(folder, cwd, tuning.study.paths.root), *notes)
    notes = (*notes, *disk_note(record.measurement, tuning.experiment.planned_run, cwd))
    notes = (*notes, *(ignored_note() if tuning.quiet is not None else ()))
    evidence = data_evidence(data, data_prints(tuning.experiment.workload, results))
    return replace(record, notes=(*record.notes, *notes), evidence={**record.evidence, **evidence})


def _file_notes(folder: TrialPaths, cwd: Path, study: Path) -> list[str]:
    """To be read right after its end. What was not put back comes first."""
    return [*trouble_notes(folder), *written_notes(folder, cwd), *list_elsewhere(folder, study)]


def _check_disk(record: TrialRecord, outcome: TrialOutcome, folder: TrialPaths) -> None:
    """The training's own records stand on this disk, too: where it had no room nobody knows what was not seen, and the
    settings are not to blame."""
    if outcome.disk_was_full and record.status is TrialStatus.NOT_OBSERVED:
        raise StorageError(
            f"there was no space left in {folder.root} while trial {record.trial} ran: nothing of it could be recorded",
            hint=MAKE_ROOM,
        )


def _data(tuning: Tuning) -> Prints:
    """Before a study's first trial nobody asks for it: its files shall be as cold as they are."""
    if tuning.study.next_trial() == 1:
        return {}
    return data_prints(tuning.experiment.workload, tuning.study.paths.root.parent)


def _watch(tuning: Tuning, proposal: Proposal) -> Watch:
    experiment = tuning.experiment
    ram = experiment.limits.ram
    return Watch(
        window=_window(experiment.window, proposal),
        planned=experiment.planned_run,
        price=experiment.price,
        batch_factor=batch_factor(proposal.settings, experiment),
        ram_limit_bytes=ram.resolve(tuning.machine.ram_bytes) if ram is not None else None,
        vram_limit=experiment.limits.vram,
        cores=tuning.machine.cores,
    )


def _window(window: Window, proposal: Proposal) -> Window:
    """Steps that the user fixed go before a plan's. Settings are told apart by short windows: only a probe waits until
    its rate can be called steady."""
    window, steps = replace(window, ground=window.ground and proposal.origin == "probe"), proposal.steps
    if steps is None or window.steps == window.max_steps:
        return window
    return replace(window, steps=steps[0], max_steps=max(steps[1], window.max_steps))
