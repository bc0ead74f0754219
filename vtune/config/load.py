"""From an experiment file or a command line to an Experiment, or to everything that is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vtune.config.command_line import CommandLine, Overrides, read_command_line
from vtune.config.commands import (
    CONFIG,
    program_problem,
    study_name,
    study_name_of_command,
    use_placeholder,
)
from vtune.config.document import Document, read_document, read_training_config
from vtune.config.find import find_config, missing_file
from vtune.config.models import MINIMAL, SECTION, ReadSection, VtuneSection, WindowSection, read_section
from vtune.config.named_config import config_named_by
from vtune.config.own_knobs import check_own_ways
from vtune.config.planned_run import planned_run
from vtune.config.problems import ConfigErrors, Problem
from vtune.config.written_folders import can_be_protected
from vtune.domain.effects import Scalar
from vtune.domain.experiment import GRACE_S, Experiment, Limits, PlannedRun, Window, Workload, Writes
from vtune.errors import UsageError
from vtune.knobs.keys import find_key, wrong_values
from vtune.knobs.plan import check_reachable
from vtune.knobs.registry import knob_named
from vtune.knobs.settings import check_settings, shown
from vtune.knobs.spelling import nearest
from vtune.knobs.ways import current_settings

# --precise: up to so many steps, where the interval is still wider than this. Two launches of the same thing differ by
# 3 %, which no window can lessen: it leaves the window itself 2 %.
PRECISE_STEPS = 300
PRECISE_NARROW = 0.036
# The training may know better than vtune what its own key means.
_WRONG_VALUE = "correct it, or name with vtune.knobs.NAME.key the key of the training that stands for the knob"
_CWD = (
    "name the folder in which the training is started, as seen from the config's folder; the default is where you are"
)


@dataclass(frozen=True, slots=True)
class _Training:
    """The training's own config: from a file of its own, or the experiment file without `vtune:`."""

    path: Path
    config: Mapping[str, Any]
    document: Document


def load_experiment(path: str | Path, *, overrides: CommandLine | None = None, last_of_two: bool = False) -> Experiment:
    """`last_of_two`: of a key of the training's that stands there twice the last one is taken, and nothing is said."""
    problems: list[Problem] = []
    file = find_config(path, problems)
    document = _document(file, problems) if file is not None else None
    read = read_section(document, problems) if document is not None else None
    asked = _asked(overrides or CommandLine(), read, problems)
    if document is None or read is None:
        raise ConfigErrors(problems)
    section, failed = read.section, read.failed

    cwd = _cwd(document, section, problems)
    training = _training(document, section, problems) if "config" not in failed else None
    command = section.command
    # What a wrong key leaves open is not held against the others.
    if training is not None and failed.isdisjoint(("command", "cwd")):
        command = _with_config(document, command, training, cwd, problems)
    if os.path.isdir(cwd) and failed.isdisjoint(("command", "cwd", "env")):
        wrong = program_problem(command, cwd, section.env or {})
        if wrong is not None:
            where = document.where([SECTION, "command"])
            problems.append(Problem(where=where, message=f"vtune.command: {wrong[0]}", hint=wrong[1]))

    if training is None and section.config is None and failed.isdisjoint(("command", "cwd", "config")):
        workload = _plain_workload(command, cwd, section.env or {})
    else:
        workload = Workload(
            command=command,
            cwd=cwd,
            config_path=training.path if training else None,
            config=training.config if training else None,
            env=section.env or {},
        )
    experiment = Experiment(
        study=asked.study or section.study or study_name(document.path.stem),
        workload=workload,
        limits=Limits(
            vram=asked.vram or (section.limits.vram if section.limits else None),
            ram=asked.ram or (section.limits.ram if section.limits else None),
        ),
        writes=Writes(
            protect=_protected(document, section, problems),
            disk=asked.disk or (section.limits.disk if section.limits else None),
            real=asked.allow_writes,
        ),
        window=_window(section.window or WindowSection(), asked),
        planned_run=planned_run(
            command=command,
            config=workload.config,
            config_name=workload.config_path.name if workload.config_path else None,
            stated=_stated_run(section, document.path.name),
        ),
        declared_cores=section.machine.cores if section.machine is not None else None,
        price=asked.price or section.price,
        allow=asked.allow or section.allow or "SAME",
        knobs=read.bindings,
        resume=section.resume or (),
        grace_s=(section.launch.grace if section.launch is not None else None) or GRACE_S,
        settings={**(section.settings or {}), **asked.settings},
        source=document.path.absolute(),
    )
    # A training's config that could not be read holds no key, and that is said already.
    if training is not None or (section.config is None and "config" not in failed):
        _check_keys(experiment, document, training, problems)
    if not all(last_of_two and problem.twice for problem in problems):
        raise ConfigErrors(problems)
    return experiment


def experiment_from_command(cmd: Sequence[str], *, overrides: CommandLine | None = None) -> Experiment:
    """`-- CMD`: run as it is, in the current directory; settings go through its flags, its config, or the hook."""
    problems: list[Problem] = []
    asked = read_command_line(overrides or CommandLine(), problems)
    command, cwd = tuple(cmd), Path.cwd()
    if not command or not command[0].strip():
        hint = "for example: vtune probe -- python train.py"
        raise ConfigErrors([*problems, Problem(message="there is no command after --", hint=hint)])
    wrong = program_problem(command, cwd, {})
    if wrong is not None:
        problems.append(Problem(message=wrong[0], hint=wrong[1]))
    workload = _plain_workload(command, cwd, {})
    experiment = Experiment(
        study=asked.study or study_name_of_command(command),
        workload=workload,
        limits=Limits(vram=asked.vram, ram=asked.ram),
        writes=Writes(disk=asked.disk, real=asked.allow_writes),
        window=_window(WindowSection(), asked),
        planned_run=planned_run(
            command=command,
            config=workload.config,
            config_name=workload.config_path.name if workload.config_path else None,
        ),
        price=asked.price,
        allow=asked.allow or "SAME",
        settings=asked.settings,
    )
    _check_settings(experiment, None, problems)
    if problems:
        raise ConfigErrors(problems)
    return experiment


def _asked(typed: CommandLine, read: ReadSection | None, problems: list[Problem]) -> Overrides:
    """What is wrong in a knob of the user's own is not held against its --set."""
    if read is None:
        return read_command_line(typed, problems)
    known = tuple(text for text in typed.sets if text.partition("=")[0].strip() not in read.wrong_knobs)
    return read_command_line(replace(typed, sets=known), problems, read.bindings)


def _plain_workload(command: tuple[str, ...], cwd: Path, env: Mapping[str, str]) -> Workload:
    """A command that was not written for vtune may name a config all the same."""
    named = config_named_by(command, cwd)
    if named is None:
        return Workload(command=command, cwd=cwd, env=env)
    return Workload(
        command=command, cwd=cwd, config_path=named.path, config=named.config, config_word=named.word, env=env
    )


def _document(file: Path, problems: list[Problem]) -> Document | None:
    if file.suffix.lower() in (".json", ".toml"):
        problems.append(
            Problem(
                where=str(file),
                message="an experiment file is YAML",
                hint=f"write one beside it:\nvtune:\n  config: {file.name}\n"
                '  command: "{python} train.py --config {config}"',
            )
        )
        return None
    document = read_document(file, problems)
    if document is not None and SECTION not in document.data:
        meant = next((key for key in document.data if isinstance(key, str) and nearest(key, [SECTION])), None)
        problems.append(
            Problem(
                where=document.where([meant] if meant else [], at_key=True),
                message="there is no `vtune:` section" + (f'; is "{meant}" it?' if meant else ""),
                hint=f"add two lines that say how the training is started:\n{MINIMAL}",
            )
        )
        return None
    return document


def _cwd(document: Document, section: VtuneSection, problems: list[Problem]) -> Path:
    """Where the user stands when nothing is said: a training's own paths mean what they mean without vtune."""
    if section.cwd is None:
        return Path.cwd()
    cwd = document.path.absolute().parent / os.path.expanduser(section.cwd)
    if not os.path.isdir(cwd):
        what = "is not a directory" if os.path.exists(cwd) else "does not exist"
        where = document.where([SECTION, "cwd"])
        problems.append(Problem(where=where, message=f"vtune.cwd {shown(section.cwd)} {what} ({cwd})", hint=_CWD))
    return cwd.resolve()


def _protected(document: Document, section: VtuneSection, problems: list[Problem]) -> tuple[Path, ...]:
    """A misspelt folder would leave the user sure of a protection that is not there."""
    found = []
    for at, name in enumerate(section.protect or ()):
        folder = document.path.absolute().parent / Path(name).expanduser() if name else None
        wrong = None
        if folder is None or not folder.is_dir():
            wrong = f"there is no folder {shown(name)}" + (f" ({folder})" if folder is not None else "")
        elif not can_be_protected(folder):
            wrong = f"{folder} cannot be protected"
        if wrong is None and folder is not None:
            found.append(folder)
        else:
            where = document.where([SECTION, "protect", at])
            hint = "name folders that exist, relative to this file: protect: [../runs, /data/checkpoints]"
            problems.append(Problem(where=where, message=f"vtune.protect: {wrong}", hint=hint))
    return tuple(found)


def _training(document: Document, section: VtuneSection, problems: list[Problem]) -> _Training | None:
    own = {key: value for key, value in document.data.items() if key != SECTION}
    if section.config is None:
        # A training whose config may be empty still gets its copy when the command asks for one.
        return (
            _Training(document.path.absolute(), own, document) if own or CONFIG in " ".join(section.command) else None
        )
    if own:
        first = str(next(iter(own)))
        problems.append(
            Problem(
                where=document.where([first], at_key=True),
                message=f'"{first}" stands beside `vtune:`, but vtune.config names another file for the training',
                hint=f"move it to {section.config}, or under `vtune:` if it was meant for vtune",
            )
        )
    path = document.path.parent / os.path.expanduser(section.config)
    if not os.path.exists(path):
        missing = missing_file(path)
        problems.append(
            Problem(
                where=document.where([SECTION, "config"]),
                message=f"vtune.config: no such file: {path}",
                hint=missing.hint,
            )
        )
        return None
    found = read_training_config(path, problems)
    if found is None:
        return None
    config = {key: value for key, value in found.data.items() if key != SECTION}
    return _Training(path.absolute(), config, found)


def _with_config(
    document: Document, command: tuple[str, ...], training: _Training, cwd: Path, problems: list[Problem]
) -> tuple[str, ...]:
    command = use_placeholder(command, training.path, cwd)
    if CONFIG not in " ".join(command):
        problems.append(
            Problem(
                where=document.where([SECTION, "command"]),
                message="vtune.command does not say where the training takes its config",
                hint="write {config} in its place, for example: "
                '"{python} train.py --config {config}"; every trial gets a copy of its own; or, if it takes none,'
                " leave out the keys beside `vtune:`",
            )
        )
    return command


def _window(section: WindowSection, asked: Overrides) -> Window:
    default = Window()
    steps = asked.steps or section.steps
    if asked.steps is not None:
        longest = asked.steps
    else:
        longest = section.max_steps or section.steps or default.max_steps
    return Window(
        steps=steps or min(default.steps, longest),
        max_steps=max(longest, PRECISE_STEPS) if asked.precise else longest,
        narrow=PRECISE_NARROW if asked.precise else default.narrow,
        ground=asked.precise and asked.steps is None,
        trial_time_s=asked.trial_time_s or section.trial_time or default.trial_time_s,
        startup_time_s=asked.startup_time_s or section.startup_time or default.startup_time_s,
        hang_time_s=section.hang_time or default.hang_time_s,
        validation=asked.validation or bool(section.validation),
        keep_cold=section.keep_cold is not False,
    )


def _stated_run(section: VtuneSection, name: str) -> PlannedRun:
    run = section.run
    if run is None:
        return PlannedRun()
    return PlannedRun(
        epochs=run.epochs,
        epochs_source=None if run.epochs is None else f"vtune.run.epochs in {name}",
        iterations_per_epoch=run.iterations_per_epoch,
        iterations_source=None if run.iterations_per_epoch is None else f"vtune.run.iterations_per_epoch in {name}",
        samples_per_epoch=run.samples_per_epoch,
    )


def _check_keys(
    experiment: Experiment, document: Document, training: _Training | None, problems: list[Problem]
) -> None:
    before = len(problems)
    for binding in experiment.knobs:
        with _located(document.where([SECTION, "knobs", binding.name, "key"]), problems):
            find_key(knob_named(binding.name, experiment.knobs), experiment)
    if len(problems) == before:
        check_own_ways(experiment, document, problems)
    if training is not None:
        problems += [
            Problem(where=training.document.where(path), message=message, hint=_WRONG_VALUE)
            for path, message in wrong_values(training.config, bound=_bound(document))
        ]
    if len(problems) == before:
        _check_settings(experiment, document, problems)


def _check_settings(experiment: Experiment, document: Document | None, problems: list[Problem]) -> None:
    for name in experiment.settings:
        with _located(_where_set(document, name), problems):
            check_reachable(knob_named(name, experiment.knobs), experiment)
    with _located(None, problems):
        now: Mapping[str, Scalar] = current_settings(experiment)
        check_settings(experiment.settings, workers_now=now.get("workers"))


def _bound(document: Document) -> set[str]:
    knobs = document.data[SECTION].get("knobs")
    entries = knobs.items() if isinstance(knobs, Mapping) else ()
    return {str(name) for name, entry in entries if isinstance(entry, Mapping) and "key" in entry}


def _where_set(document: Document | None, name: str) -> str | None:
    settings = None if document is None else document.data[SECTION].get("settings")
    if document is None or not isinstance(settings, Mapping) or name not in settings:
        return None
    return document.where([SECTION, "settings", name])


@contextmanager
def _located(where: str | None, problems: list[Problem]) -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        problems.append(Problem(where=where, message=error.message, hint=error.hint))
