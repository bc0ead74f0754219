"""The commands' verbs, from Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vtune.config.experiment_file import write_experiment
from vtune.domain.experiment import Experiment
from vtune.domain.progress import TuningEvent
from vtune.domain.record import TrialRecord
from vtune.errors import MachineError
from vtune.execution.engines.local import LocalEngine
from vtune.execution.sweep import sweep_stale
from vtune.journal.study import open_study
from vtune.strategies.fixed import Once
from vtune.telemetry.machine import this_machine
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
    with open_study(results, experiment.study, machine, wait=wait) as study:
        sweep_stale(study.paths.trials)
        write_experiment(experiment, study.paths.experiment)
        strategy = Once(experiment.settings, already=len(study.journal.read()))
        tuning = Tuning(study=study, experiment=experiment, engine=LocalEngine(INJECT), machine=machine, notify=notify)
        history = tune(tuning, strategy)
    return ProbeResult(study=experiment.study, record=history[-1])


def check_platform() -> None:
    if sys.platform != "linux":
        raise MachineError(
            f"trials run on Linux and WSL2 only, this is {sys.platform}",
            hint="run vtune where the training runs; reports can be read anywhere",
        )
