"""The chosen settings as they go into the user's own files: what would change where, and what only a person can."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from vtune.analysis.another_batch import AnotherBatch
from vtune.config.edit import Changes, edited, rewritten
from vtune.config.edit_problem import INTERPOLATION, CannotEdit
from vtune.config.named_config import why_unread
from vtune.config.write_edit import free_name
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.record import TrialRecord
from vtune.errors import UsageError
from vtune.foreign.bounds import BadText
from vtune.foreign.read import read_bytes
from vtune.journal.launch_files import read_object
from vtune.journal.paths import StudyPaths
from vtune.knobs.flags import find_flag
from vtune.knobs.keys import find_key, key_named_as
from vtune.knobs.plan import effects_of, fill_placeholders, turned_command
from vtune.knobs.registry import knob_named
from vtune.reporting.adopt import (
    another_training,
    changed_batch,
    other_results,
    repeated_data,
    settings_to_adopt,
)
from vtune.reporting.by_way import by_way
from vtune.reporting.commands import is_setting
from vtune.reporting.loader_lines import PythonLine, python_lines
from vtune.reporting.study_report import StudyReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEdit:
    file: Path
    before: bytes
    # None where it cannot be changed in place, and then why.
    after: bytes | None
    refused: str | None = None
    # The same values as a file of their own, without the comments; None where that cannot be had either.
    beside: str | None = None

    @property
    def diff(self) -> str:
        """As `diff -u` has it; empty where nothing changes."""
        if self.after is None:
            return ""
        # As patch counts lines: Python knows more of their ends.
        old, new = (re.findall(r"[^\n]*\n|[^\n]+", part.decode()) for part in (self.before, self.after))
        lines = difflib.unified_diff(old, new, str(self.file), str(self.file), n=2)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

    @property
    def beside_path(self) -> Path:
        """Beside the name that the user gave, be it a link."""
        return free_name(self.file.with_name(f"{self.file.stem}.tuned{self.file.suffix}"), self.beside or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    study: str
    trial: TrialRecord
    # What it ran with and the user's own configuration does not.
    settings: Mapping[str, Scalar]
    config: ConfigEdit | None = None
    # As it has to be typed; None where it stays.
    command: tuple[str, ...] | None = None
    env: Mapping[str, Scalar]
    python: tuple[PythonLine, ...] = ()
    # Nobody but the training knows where these are set.
    unknown: Mapping[str, Scalar]
    # Another effective batch than the user's.
    batch: AnotherBatch | None = None
    # Why it is not the same training, where it is not.
    another_training: tuple[str, ...] = ()
    # Loader workers that make the same data, and what mends it.
    repeated: tuple[str, ...] = ()


def application_of(report: StudyReport, trial: int | None = None) -> Application | None:
    """Of the chosen trial, or of another one. None where there is nothing to apply: what is there is as good."""
    record = report.choice.best if trial is None else _trial(report, trial)
    if record is None:
        return None
    settings = settings_to_adopt(report, record)
    unread = report.unread or _unread_named(report, record)
    if settings and unread is not None:
        # Without the training's own files nobody knows which of their keys these are.
        raise unread
    turned = {name: value for name, value in settings.items() if is_setting(name, value, report.experiment)}
    if not turned:
        return None
    experiment, batch = report.experiment, changed_batch(record, report)
    filled_in = dict(_filled_in(turned, experiment)) if experiment is not None else {}
    found = by_way({name: value for name, value in turned.items() if name not in filled_in}, experiment)
    keys: Changes = {**found.keys, **{path: turned[name] for name, path in filled_in.items()}}
    file = experiment.workload.config_path if experiment is not None else None
    return Application(
        study=report.study,
        trial=record,
        settings=turned,
        config=config_edit(file, keys) if file is not None and keys else None,
        command=_command(experiment, found.flagged) if experiment is not None and found.flags else None,
        env=found.env,
        python=tuple(python_lines(found.options, report.loader_at, _scripts(experiment))),
        unknown={**found.others, **{name: value for name, value in settings.items() if name not in turned}},
        batch=batch,
        another_training=(*another_training(batch), *other_results(turned, experiment)),
        repeated=tuple(repeated_data(record, report.own)),
    )


def _unread_named(report: StudyReport, record: TrialRecord) -> UsageError | None:
    """Why the config that a plain command names cannot be read any more: this trial turned a key of it."""
    workload = report.experiment.workload if report.experiment is not None else None
    if workload is None or workload.config is not None:
        return None
    effects = read_object(StudyPaths(report.folder).trial(record.trial).spec).get("effects")
    by_key = any(effect.get("kind") == "SetConfigKey" for effect in effects or ())
    return why_unread(workload.command, workload.cwd) if by_key else None


def _filled_in(settings: Mapping[str, Scalar], experiment: Experiment) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Settings whose key the training fills in itself, as `workers: ${WORKERS}`. What turned them in a trial is no way
    into the user's files as long as that key stands there."""
    config = experiment.workload.config or {}
    for name in settings:
        knob = knob_named(name, experiment.knobs)
        if find_key(knob, experiment) is None and find_flag(knob, experiment.workload.command) is None:
            path = key_named_as(knob, config, _is_filled_in)
            if path is not None:
                yield name, path


def _is_filled_in(value: object) -> bool:
    return isinstance(value, str) and INTERPOLATION.search(value) is not None


def _scripts(experiment: Experiment | None) -> tuple[Path, ...]:
    if experiment is None:
        return ()
    workload = experiment.workload
    return tuple(workload.cwd / word for word in workload.command if word.endswith(".py"))


def _trial(report: StudyReport, number: int) -> TrialRecord:
    found = next((one for one in report.records if one.trial == number), None)
    if found is None:
        raise UsageError(f"study {report.study} has no trial {number}", hint="vtune report lists its trials")
    return found


def config_edit(file: Path, keys: Changes) -> ConfigEdit:
    """The file with these values. Writes nothing."""
    try:
        before = read_bytes(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", hint="let this account read it") from error
    except BadText as error:
        raise UsageError(f"{file} {error.message}", hint=error.hint) from error
    try:
        return ConfigEdit(file=file, before=before, after=edited(before, file.suffix, keys))
    except CannotEdit as error:
        try:
            beside = rewritten(before, file.suffix, keys)
        except CannotEdit:
            beside = None
        return ConfigEdit(file=file, before=before, after=None, refused=str(error), beside=beside)


def _command(experiment: Experiment, settings: Mapping[str, Scalar]) -> tuple[str, ...] | None:
    workload = experiment.workload
    turned = turned_command(workload, effects_of(settings, experiment, train_loader=None))
    return fill_placeholders(turned, config=workload.config_path)
