"""The commands' verbs, from Python."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vtune.analysis.race import DELTA, ROUNDS, Standing
from vtune.config.experiment_file import write_experiment
from vtune.config.program import resolve_program
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.machine import Machine
from vtune.domain.progress import TuningEvent
from vtune.domain.record import TrialRecord
from vtune.domain.selftest import CellResult
from vtune.domain.trial import TrialStatus
from vtune.errors import MachineError
from vtune.execution.engines.local import LocalEngine
from vtune.execution.scout import known_loader
from vtune.execution.sweep import sweep_stale
from vtune.journal import validated
from vtune.journal.ignored_flags import heeding
from vtune.journal.paths import StudyPaths
from vtune.journal.study import open_study
from vtune.knobs.describe import KnobView, describe_all
from vtune.reporting.comparison import Comparison, compare_references
from vtune.reporting.references import find_side
from vtune.reporting.study_report import find_report
from vtune.selftest.cells import Cell
from vtune.selftest.session import Selftest, run_selftest
from vtune.strategies.fixed import Once
from vtune.strategies.race import Race
from vtune.telemetry.cannot import Cannot
from vtune.telemetry.machine import this_machine
from vtune.telemetry.nvml import NO_DRIVER
from vtune.telemetry.survey import Survey
from vtune.telemetry.survey import survey as survey_of
from vtune.tuner import Tuning, find_ceiling, tune

# Nobody imports the worker: it is put in front of the training's PYTHONPATH.
INJECT = Path(__file__).parent / "worker" / "inject"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    study: str
    record: TrialRecord
    # The second launch, where it was asked for and the first completed with a loader that feeds its steps.
    ceiling: TrialRecord | None = None
    machine: Machine


def probe(
    experiment: Experiment,
    *,
    results: Path = Path("results"),
    wait: bool = False,
    ceiling: bool = False,
    notify: Callable[[TuningEvent], None] = lambda event: None,
) -> ProbeResult:
    """One bounded trial of the current settings and what `experiment.settings` changes in them; with `ceiling` a second
    one, fed from memory: how fast with data for free, and how large a batch fits."""
    check_platform()
    machine = this_machine()
    with open_study(results, experiment.study, machine, wait=wait) as study:
        sweep_stale(study.paths.trials)
        write_experiment(experiment, study.paths.experiment)
        strategy = Once(experiment.settings, already=len(study.journal.read()))
        tuning = Tuning(study=study, experiment=experiment, engine=LocalEngine(INJECT), machine=machine, notify=notify)
        record = tune(tuning, strategy)[-1]
        completed = record.status is TrialStatus.COMPLETED
        found = find_ceiling(tuning, record) if ceiling and completed else None
    return ProbeResult(study=experiment.study, record=record, ceiling=found, machine=machine)


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceResult:
    study: str
    race: str
    standing: Standing
    # All launches of the race, also those of an earlier call that was stopped.
    legs: tuple[TrialRecord, ...]
    interrupted: bool = False


def race(
    experiment: Experiment,
    contestants: Sequence[Mapping[str, Scalar]],
    *,
    baseline: Mapping[str, Scalar],
    rounds: int = ROUNDS,
    delta: float = DELTA,
    budget_s: float | None = None,
    seed: int = 0,
    results: Path = Path("results"),
    wait: bool = False,
    notify: Callable[[TuningEvent], None] = lambda event: None,
) -> RaceResult:
    """Fresh launches in rounds until one is shown to be faster or they are equal. What the journal has of the same race
    is gone on with."""
    check_platform()
    machine = this_machine()
    strategy = Race(contestants, baseline, seed, rounds, delta, budget_s, machine.cores)
    with open_study(results, experiment.study, machine, wait=wait) as study:
        sweep_stale(study.paths.trials)
        write_experiment(experiment, study.paths.experiment)
        tuning = Tuning(study=study, experiment=experiment, engine=LocalEngine(INJECT), machine=machine, notify=notify)
        history = tune(tuning, strategy)
    return RaceResult(
        study=experiment.study,
        race=strategy.id,
        standing=strategy.standing(history),
        legs=tuple(strategy.legs(history)),
        interrupted=bool(history) and history[-1].status is TrialStatus.INTERRUPTED,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobsResult:
    machine: Machine
    knobs: tuple[KnobView, ...]


def knobs(experiment: Experiment | None = None, *, results: Path = Path("results")) -> KnobsResult:
    """What may be turned here, and by which way in this training. Starts and writes nothing, on any platform."""
    machine = this_machine()
    loader = None
    if experiment is not None:
        study = StudyPaths(results / experiment.study)
        experiment, loader = heeding(experiment, study), known_loader(experiment, study)
    return KnobsResult(machine=machine, knobs=describe_all(machine, experiment, loader))


# The reporting room's own verb: there is nothing to start, to check or to lock.
report = find_report


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorResult:
    survey: Survey
    # This kind of GPU, with this driver and this torch, has passed the self-test on this account.
    validated: bool
    # Why no trial can run here at all.
    blocked: Cannot | None


def doctor(*, results: Path = Path("results"), python: str | None = None) -> DoctorResult:
    """What this machine has, and what cannot be measured or enforced on it. Starts no training, writes nothing."""
    check_platform()
    if python is None:
        [python], _ = resolve_program(("python",), Path.cwd(), {})
    found = survey_of(results, python)
    return DoctorResult(
        survey=found,
        # Devices that cannot be read are not none, and a Python without torch has proved nothing.
        validated=found.python.torch is not None
        and (bool(found.gpus.devices) or found.gpus.why_none == NO_DRIVER)
        and validated.is_validated(found.gpus.names, found.gpus.driver, torch=found.python.torch),
        blocked=next((one for one in found.cannot if one.blocks), None),
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


def check_platform() -> None:
    if sys.platform != "linux":
        raise MachineError(
            f"trials run on Linux and WSL2 only, this is {sys.platform}",
            hint="run vtune where the training runs; reports can be read anywhere",
        )
