"""A study opened for trials: for this process alone, swept, and with the user's files protected."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from vtune.config.experiment_file import write_experiment
from vtune.domain.experiment import Experiment
from vtune.domain.progress import TuningEvent, UnprovenLeft
from vtune.errors import MachineError, UsageError
from vtune.execution.engines.local import LocalEngine
from vtune.execution.inside_hold import held
from vtune.execution.launch_running import running_launch
from vtune.execution.protection import check_protection, folders_written
from vtune.execution.quiet import Quiet
from vtune.execution.sweep import files_put_back, left_unproven, sweep_if_stale, sweep_overlapping, sweep_stale
from vtune.journal.paths import StudyPaths
from vtune.journal.study import open_study
from vtune.telemetry.machine import this_machine
from vtune.tuner import Tuning

# Nobody imports the worker: it is put in front of the training's PYTHONPATH.
INJECT = Path(__file__).parent / "worker" / "inject"


@contextmanager
def opened(
    experiment: Experiment, results: Path, notify: Callable[[TuningEvent], None], quiet: Quiet, *, wait: bool
) -> Iterator[Tuning]:
    """The study for this process alone, with what is asked of it written down."""
    check_platform()
    machine = this_machine(declared_cores=experiment.declared_cores)
    with open_study(results, experiment.study, machine, wait=wait) as study:
        _check_no_full_run(study.paths)
        swept = sweep_stale(study.paths.trials)
        swept += [study.paths.scout.root] if sweep_if_stale(study.paths.scout.root) else []
        _tell_swept(swept, notify)
        unproven = left_unproven(study.paths.trials)
        if unproven:
            notify(UnprovenLeft(trials=tuple(folder.name for folder in unproven)))
        instead = check_protection(experiment, study.paths)
        if instead is not None:
            notify(instead)
        alone = held(instead.folders, study.paths, wait=wait) if instead is not None else nullcontext()
        with alone:
            _tell_swept(sweep_overlapping(folders_written(experiment)), notify)
            write_experiment(experiment, study.paths.experiment)
            engine = LocalEngine(INJECT)
            yield Tuning(study=study, experiment=experiment, engine=engine, machine=machine, notify=notify, quiet=quiet)


def _tell_swept(folders: Iterable[Path], notify: Callable[[TuningEvent], None]) -> None:
    for found in map(files_put_back, folders):
        if found is not None:
            notify(found)


def _check_no_full_run(study: StudyPaths) -> None:
    """Trials beside it would measure neither, and a training that says nowhere in its config where it writes would
    write over what the run has saved."""
    running = running_launch(study)
    if running is not None:
        raise UsageError(
            f"launch {running.number} of study {study.root.name} runs as process {running.pid}: a trial beside it would"
            " be slowed down by it, and slow it down",
            hint=f"wait for its end, or end it: kill {running.guard_pid or running.pid} lets it save",
        )


def check_platform() -> None:
    if sys.platform != "linux":
        raise MachineError(
            f"trials run on Linux and WSL2 only, this is {sys.platform}",
            hint="run vtune where the training runs; reports can be read anywhere",
        )
