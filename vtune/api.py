"""The commands' verbs, from Python."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vtune.analysis.others_words import STOP_THEM
from vtune.config.program import resolve_program
from vtune.domain.experiment import Experiment
from vtune.domain.launch import LaunchResult
from vtune.domain.machine import Machine
from vtune.domain.phases import AskedPhases, Walk
from vtune.domain.progress import TuningEvent
from vtune.domain.record import TrialRecord
from vtune.domain.search import Hunt, Space
from vtune.domain.selftest import CellResult
from vtune.domain.trial import TrialStatus
from vtune.errors import MachineError, VtuneError
from vtune.execution.engines.local import LocalEngine
from vtune.execution.quiet import BUSY_WAIT_S, Quiet, disturbed
from vtune.execution.scout import known_loader
from vtune.journal import validated
from vtune.journal.ignored_flags import heeding
from vtune.journal.paths import StudyPaths
from vtune.journal.study import check_machine
from vtune.knobs.describe import KnobView, describe_all
from vtune.knobs.values import ranks_of
from vtune.launcher.checks import check_nobody_measures, check_nothing_runs, check_overwrites, check_room, check_stale
from vtune.launcher.plan import PlannedLaunch
from vtune.launcher.run import run_launch
from vtune.launcher.telling import Notify
from vtune.opening import INJECT as INJECT
from vtune.opening import check_platform, opened
from vtune.phases import PhaseResult, run_phases
from vtune.racing import PlannedRace, RaceResult, planned_race, run_race
from vtune.reporting.comparison import Comparison, compare_references
from vtune.reporting.phase_times import Expected, expected, scout_to_come
from vtune.reporting.references import find_side, read_again
from vtune.reporting.search_times import ExpectedSearch
from vtune.reporting.study_report import find_report
from vtune.search import AskedSearch, SearchResult, run_search, scout_s_of, space_by
from vtune.selftest.cells import Cell
from vtune.selftest.session import Selftest, run_selftest
from vtune.strategies.fixed import Once
from vtune.strategies.known import last_trial
from vtune.strategies.left_out import left_out
from vtune.strategies.phases import Phases
from vtune.strategies.race import Race
from vtune.telemetry.cannot import Blocking
from vtune.telemetry.machine import this_machine
from vtune.telemetry.nvml import NO_DRIVER
from vtune.telemetry.survey import Survey
from vtune.telemetry.survey import survey as survey_of
from vtune.tuner import find_ceiling, recorded, tune


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    study: str
    record: TrialRecord
    # The second launch, where it was asked for and the first completed with a loader that feeds its steps.
    ceiling: TrialRecord | None = None
    machine: Machine
    # Before the search for the ceiling had anything to record.
    interrupted: bool = False


def probe(
    experiment: Experiment,
    *,
    results: Path = Path("results"),
    wait: bool = False,
    ceiling: bool = False,
    anyway: bool = False,
    busy_wait_s: float = BUSY_WAIT_S,
    notify: Callable[[TuningEvent], None] = lambda event: None,
) -> ProbeResult:
    """One bounded trial of the current settings and what `experiment.settings` changes in them; with `ceiling` a second
    one, fed from memory: how fast with data for free, and how large a batch fits. While others hold the cores that it
    would use it waits, at most `busy_wait_s`, and raises; `anyway` measures all the same and decides nothing."""
    quiet = Quiet(wait_s=busy_wait_s, anyway=anyway, launches=1, hint=STOP_THEM)
    with opened(experiment, results, notify, quiet, wait=wait) as tuning:
        strategy = Once(experiment.settings, already=last_trial(tuning.study.journal.read()))
        record = tune(tuning, strategy)[-1]
        completed = record.status is TrialStatus.COMPLETED
        found, interrupted = None, False
        try:
            found = find_ceiling(tuning, record) if ceiling and completed else None
        except KeyboardInterrupt:
            # The ordinary trial is whole and in the journal: it is shown all the same.
            interrupted = True
        if found is not None and found.on_busy_machine and not anyway:
            raise disturbed(found, hint=quiet.hint)
    return ProbeResult(
        study=experiment.study, record=record, ceiling=found, machine=tuning.machine, interrupted=interrupted
    )


def race(
    experiment: Experiment,
    asked: Race,
    *,
    results: Path = Path("results"),
    wait: bool = False,
    anyway: bool = False,
    busy_wait_s: float = BUSY_WAIT_S,
    notify: Callable[[TuningEvent], None] = lambda event: None,
) -> RaceResult:
    """Fresh launches in rounds until one is shown to be faster or they are equal. What the journal has of the same race
    is gone on with."""
    quiet = Quiet(wait_s=busy_wait_s, anyway=anyway)
    with opened(experiment, results, notify, quiet, wait=wait) as tuning:
        return run_race(tuning, asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPhases:
    """Before anything is started: how far the journal is along the plan, and what is still to come."""

    asked: AskedPhases
    walk: Walk
    # Of the study's journal, and those of them that ran another command, config or code.
    records: tuple[TrialRecord, ...]
    left_out: frozenset[int]
    expected: Expected
    folder: Path


def asked_here(asked: AskedPhases, experiment: Experiment) -> AskedPhases:
    """As it is walked on this machine."""
    return _within_cores(asked, experiment, this_machine(declared_cores=experiment.declared_cores))


def _within_cores(asked: AskedPhases, experiment: Experiment, machine: Machine) -> AskedPhases:
    return asked.within(machine.cores_to_plan_for / ranks_of(experiment.workload.command))


def phase(
    experiment: Experiment,
    asked: AskedPhases,
    *,
    results: Path = Path("results"),
    wait: bool = False,
    anyway: bool = False,
    busy_wait_s: float = BUSY_WAIT_S,
    notify: Callable[[TuningEvent], None] = lambda event: None,
) -> PhaseResult:
    """The phases of a plan in their order, each winner carried forward and what fails rolled back. What the journal has
    already is not measured again."""
    quiet = Quiet(wait_s=busy_wait_s, anyway=anyway)
    with opened(experiment, results, notify, quiet, wait=wait) as tuning:
        return run_phases(tuning, _within_cores(asked, experiment, tuning.machine))


def plan_phases(experiment: Experiment, asked: AskedPhases, *, results: Path = Path("results")) -> PlannedPhases:
    """The same as far as it is known before it begins. Starts and writes nothing."""
    machine = this_machine(declared_cores=experiment.declared_cores)
    asked = _within_cores(asked, experiment, machine)
    paths = StudyPaths(results / experiment.study)
    check_machine(paths, machine)
    experiment = heeding(experiment, paths)
    records = tuple(recorded(paths, experiment))
    others = left_out(records, experiment, paths)
    walk = Phases(asked, experiment, machine, left_out=others, already=last_trial(records)).walk(records)
    return PlannedPhases(
        asked=asked,
        walk=walk,
        records=records,
        left_out=others,
        expected=expected(
            walk,
            experiment.window,
            records,
            asked.phases,
            confirm=asked.confirm,
            scout=scout_to_come(walk, asked.phases, experiment, records),
        ),
        folder=paths.root,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSearch:
    """Before anything is started: what may be turned, how far the journal is, and what is still to come."""

    asked: AskedSearch
    hunt: Hunt
    space: Space
    # Of the study's journal, and those of them that ran another command, config or code.
    records: tuple[TrialRecord, ...]
    left_out: frozenset[int]
    expected: ExpectedSearch
    folder: Path


def search(
    experiment: Experiment,
    asked: AskedSearch,
    *,
    results: Path = Path("results"),
    wait: bool = False,
    anyway: bool = False,
    busy_wait_s: float = BUSY_WAIT_S,
    notify: Callable[[TuningEvent], None] = lambda event: None,
) -> SearchResult:
    """All knobs together, each trial where it is worth most by those before it. What the journal has already is not
    measured again."""
    quiet = Quiet(wait_s=busy_wait_s, anyway=anyway)
    with opened(experiment, results, notify, quiet, wait=wait) as tuning:
        return run_search(tuning, asked)


def plan_search(experiment: Experiment, asked: AskedSearch, *, results: Path = Path("results")) -> PlannedSearch:
    """The same as far as it is known before it begins. Starts and writes nothing."""
    machine = this_machine(declared_cores=experiment.declared_cores)
    paths = StudyPaths(results / experiment.study)
    check_machine(paths, machine)
    experiment = heeding(experiment, paths)
    records = tuple(recorded(paths, experiment))
    others = left_out(records, experiment, paths)
    scout_s = scout_s_of(paths, records)
    hunt = asked.strategy(experiment, machine, others, already=last_trial(records), scout_s=scout_s).hunt(records)
    space = space_by(hunt, experiment, machine)
    return PlannedSearch(
        asked=asked,
        hunt=hunt,
        space=space,
        records=records,
        left_out=others,
        expected=asked.expected(hunt, space, experiment, records),
        folder=paths.root,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCheck:
    # Why it may not be launched as things are; with `force` only what nobody should do.
    refusal: VtuneError | None
    notes: tuple[str, ...] = ()


def check_launch(planned: PlannedLaunch, *, force: bool = False) -> LaunchCheck:
    """Whether it is still what was tuned, and whether there is room. Starts and writes nothing."""
    check_platform()
    machine = this_machine(declared_cores=planned.experiment.declared_cores)
    notes: list[str] = []
    try:
        notes += check_nothing_runs(planned)
        for check in (check_nobody_measures, check_stale, check_room, check_overwrites):
            try:
                notes += check(planned, machine)
            except VtuneError as error:
                if not force:
                    raise
                notes.append(f"launched all the same: {error.message}")
    except VtuneError as error:
        return LaunchCheck(refusal=error, notes=tuple(notes))
    return LaunchCheck(refusal=None, notes=tuple(notes))


def launch(planned: PlannedLaunch, *, notify: Notify = lambda event: None) -> LaunchResult:
    """The full run that was planned, guarded to its end."""
    check_platform()
    machine = this_machine(declared_cores=planned.experiment.declared_cores)
    return run_launch(planned, machine, LocalEngine(INJECT), notify)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobsResult:
    machine: Machine
    knobs: tuple[KnobView, ...]


def knobs(experiment: Experiment | None = None, *, results: Path = Path("results")) -> KnobsResult:
    """What may be turned here, and by which way in this training. Starts and writes nothing, on any platform."""
    machine = this_machine(declared_cores=experiment.declared_cores if experiment is not None else None)
    loader = None
    if experiment is not None:
        study = StudyPaths(results / experiment.study)
        experiment, loader = heeding(experiment, study), known_loader(experiment, study)
    return KnobsResult(machine=machine, knobs=describe_all(machine, experiment, loader))


# Verbs of rooms below: there is nothing to start, to check or to lock.
report = find_report
plan_race = planned_race


def compare(
    a: str,
    b: str,
    *,
    study: str | None = None,
    results: Path = Path("results"),
    fail_if_slower: float | None = None,
    force: bool = False,
) -> Comparison:
    """Two trials, studies or result files: which is faster, and whether that is shown. Starts and writes nothing.
    `study` is that of a bare trial number."""
    sides = (find_side(one, results=results, study=study) for one in (a, b))
    return compare_references(*sides, most=fail_if_slower, force=force)


def compare_raced(planned: PlannedRace, *, fail_if_slower: float | None = None, force: bool = False) -> Comparison:
    """The very trials that it was planned for, by that race as far as the journal has it by now."""
    asked = planned.plan.race
    sides = (read_again(side) for side in (planned.a, planned.b))
    return compare_references(*sides, most=fail_if_slower, force=force, race=asked.id, delta=asked.delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorResult:
    survey: Survey
    # This kind of GPU, with this driver and this torch, has passed the self-test on this account.
    validated: bool
    # Why no trial can run here at all.
    blocked: Blocking | None


def doctor(*, results: Path = Path("results"), python: str | None = None) -> DoctorResult:
    """What this machine has, and what cannot be measured or enforced on it. Starts no training, writes nothing."""
    check_platform()
    if python is None:
        [python], _ = resolve_program(("python",), Path.cwd(), {})
    elif os.sep in python:
        # Known trainings start in folders of their own.
        python = os.path.abspath(python)
    found = survey_of(results, python)
    return DoctorResult(
        survey=found,
        # Devices that cannot be read are not none, and a Python without torch has proved nothing.
        validated=found.python.torch is not None
        and (bool(found.gpus.devices) or found.gpus.why_none == NO_DRIVER)
        and validated.is_validated(found.gpus.names, found.gpus.driver, torch=found.python.torch),
        blocked=next((one for one in found.cannot if isinstance(one, Blocking)), None),
    )


def selftest(
    *,
    results: Path = Path("results"),
    python: str | None = None,
    survey: Survey | None = None,
    notify: Callable[[Cell | CellResult], None] = lambda event: None,
) -> Selftest:
    """Known trainings and process trees, measured like any other and judged by what is known of them."""
    if survey is None:
        found = doctor(results=results, python=python)
        if found.blocked is not None:
            raise MachineError(found.blocked.because, hint=found.blocked.instead)
        survey = found.survey
    return run_selftest(survey, this_machine(gpus=survey.gpus), results=results, inject=INJECT, notify=notify)
