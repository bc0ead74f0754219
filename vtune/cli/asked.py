"""What was asked: a config, a command, or the study used last."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vtune.config.command_line import CommandLine, read_command_line
from vtune.config.experiment_file import experiment_text
from vtune.config.find import find_config
from vtune.config.load import experiment_from_command, load_experiment
from vtune.config.problems import ConfigErrors, Problem
from vtune.config.program import resolve_program
from vtune.domain.experiment import Experiment
from vtune.errors import UsageError
from vtune.execution.sweep import files_put_back, sweep_overlapping
from vtune.journal.find_study import last_study
from vtune.journal.paths import StudyPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    experiment: Experiment
    # One line each for stderr: what was decided without being asked.
    notes: tuple[str, ...] = ()


def asked_experiment(
    config: str | None,
    command: Sequence[str] | None,
    typed: CommandLine,
    results: Path,
    *,
    verb: str = "probe",
    starts: bool = True,
) -> Asked:
    """`verb` is the command for the hints; `starts` is False where no program of the config's choice may run."""
    notes = [*_put_back_here()] if starts else []
    if config is not None and command:
        raise UsageError(
            f"both --config {config} and a command were given",
            hint="give one of them; a config names its own command in vtune.command",
        )
    if command:
        _check_command(command, verb)
        experiment = experiment_from_command(command, overrides=typed)
    elif config is not None:
        if config.endswith(".py"):
            raise UsageError(f"{config} is a script, not a config", hint=f"vtune {verb} -- python {config}")
        experiment = load_experiment(config, overrides=typed)
    else:
        study = _last_study(results, typed.study, verb)
        notes.append(f"going on with study {study.root.name} in {results}")
        experiment = load_experiment(str(study.experiment), overrides=replace(typed, study=study.root.name))
    workload = experiment.workload
    program, note = resolve_program(workload.command, workload.cwd, workload.env, ask=starts)
    if note is not None:
        notes.append(note)
    experiment = replace(experiment, workload=replace(workload, command=program))
    if starts:
        # Refused before a folder is made for the study.
        experiment_text(experiment)
    return Asked(experiment=experiment, notes=tuple(notes))


def _put_back_here() -> Iterator[str]:
    """First of all: a killed trial may have left the script or the config changed, or removed."""
    try:
        folders = [os.path.realpath(os.getcwd())]
    except OSError:
        return
    for found in map(files_put_back, sweep_overlapping(folders)):
        if found is not None:
            from vtune.cli.live import notice_text  # here: it loads rich, which is seldom needed

            yield notice_text(found)


def has_last_study(results: Path) -> bool:
    try:
        _last_study(results, None, "")
    except UsageError:
        return False
    return True


def _check_command(command: Sequence[str], verb: str) -> None:
    """A file where a program should stand is a forgotten --config or a forgotten python."""
    if len(command) == 1 and Path(command[0]).suffix in (".yaml", ".yml", ".json", ".toml"):
        raise UsageError(f"{command[0]} is no command", hint=f"an experiment file is named by --config {command[0]}")
    if Path(command[0]).suffix == ".py" and not os.access(command[0], os.X_OK):
        raise UsageError(f"{command[0]} is no program", hint=f"vtune {verb} -- python {' '.join(command)}")
    if len(command) == 1 and "/" not in command[0] and shutil.which(command[0]) is None:
        named = f"an experiment file is named by --config {command[0]}"
        is_config = find_config(command[0], []) is not None
        hint = named if is_config else f"vtune {verb} --config FILE, or vtune {verb} -- python train.py"
        raise UsageError(f'there is no program "{command[0]}" on the PATH', hint=hint)


def _last_study(results: Path, named: str | None, verb: str) -> StudyPaths:
    if named is not None:
        problems: list[Problem] = []
        read_command_line(CommandLine(study=named), problems)
        if problems:
            raise ConfigErrors(problems)
    name = named or last_study(results)
    study = StudyPaths(results / (name or ""))
    if name and os.path.isfile(study.experiment):
        return study
    what = f"there is no study {name} in {results}" if name else f"no training was named, and {results} holds no study"
    raise UsageError(what, hint=f"vtune {verb} --config FILE, or vtune {verb} -- python train.py")
