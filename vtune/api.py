"""The commands' verbs, from Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from vtune.config.experiment_file import write_experiment
from vtune.config.program import resolve_program
from vtune.domain.experiment import Experiment, Limits, Price
from vtune.domain.machine import Machine
from vtune.domain.progress import TuningEvent
from vtune.domain.record import TrialRecord
from vtune.domain.selftest import CellResult
from vtune.errors import MachineError
from vtune.execution.engines.local import LocalEngine
from vtune.execution.scout import known_loader
from vtune.execution.sweep import sweep_stale
from vtune.journal import validated
from vtune.journal.paths import StudyPaths
from vtune.journal.study import open_study
from vtune.knobs.describe import KnobView, describe_all
from vtune.reporting.study_report import StudyReport, find_report
from vtune.selftest.cells import Cell
from vtune.selftest.session import Selftest, run_selftest
from vtune.strategies.fixed import Once
from vtune.telemetry.host import HostSampler
from vtune.telemetry.machine import this_machine
from vtune.telemetry.survey import Cannot, Survey
from vtune.telemetry.survey import survey as survey_of
from vtune.tuner import Tuning, tune

# Nobody imports the worker: it is put in front of the training's PYTHONPATH.
INJECT = Path(__file__).parent / "worker" / "inject"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    study: str
    record: TrialRecord


def probe(
    experiment: Experiment,
    *,
    results: Path = Path("results"),
    wait: bool = False,
    notify: Callable[[TuningEvent], None] = lambda event: None,
) -> ProbeResult:
    """One bounded trial of the current settings and what `experiment.settings` changes in them."""
    check_platform()
    machine = this_machine()
    machine = replace(machine, gpu_validated=validated.is_validated(machine.gpus, machine.gpu_driver))
    with open_study(results, experiment.study, machine, wait=wait) as study:
        sweep_stale(study.paths.trials)
        write_experiment(experiment, study.paths.experiment)
        strategy = Once(experiment.settings, already=len(study.journal.read()))
        tuning = Tuning(study=study, experiment=experiment, engine=LocalEngine(INJECT), machine=machine, notify=notify)
        history = tune(tuning, strategy)
    return ProbeResult(study=experiment.study, record=history[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobsResult:
    machine: Machine
    knobs: tuple[KnobView, ...]


def knobs(experiment: Experiment | None = None, *, results: Path = Path("results")) -> KnobsResult:
    """What may be turned here, and by which way in this training. Starts and writes nothing, on any platform."""
    machine = this_machine()
    loader = known_loader(experiment, StudyPaths(results / experiment.study)) if experiment is not None else None
    return KnobsResult(machine=machine, knobs=describe_all(machine, experiment, loader))


def report(
    study: str | None = None,
    *,
    config: str | Path | None = None,
    results: Path = Path("results"),
    limits: Limits | None = None,
    price: Price | None = None,
) -> StudyReport:
    """A study from its journal: the one named, the config's, or the one used last. Starts and writes nothing."""
    return find_report(study, config=config, results=results, limits=limits, price=price)


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
        validated=validated.is_validated(found.gpus.names, found.gpus.driver, torch=found.python.torch),
        blocked=next((one for one in found.cannot if one.blocks), None),
    )


def selftest(
    *,
    results: Path = Path("results"),
    python: str | None = None,
    survey: Survey | None = None,
    notify: Callable[[Cell | CellResult], None] = lambda event: None,
    only: Callable[[Cell], bool] = lambda cell: True,
    sampler: Callable[..., HostSampler] = HostSampler,
) -> Selftest:
    """Known trainings and process trees, measured like any other and judged by what is known of them."""
    if survey is None:
        found = doctor(results=results, python=python)
        if found.blocked is not None:
            raise MachineError(found.blocked.because, hint=found.blocked.instead)
        survey = found.survey
    return run_selftest(
        survey, this_machine(), results=results, inject=INJECT, notify=notify, only=only, sampler=sampler
    )


def check_platform() -> None:
    if sys.platform != "linux":
        raise MachineError(
            f"trials run on Linux and WSL2 only, this is {sys.platform}",
            hint="run vtune where the training runs; reports can be read anywhere",
        )
