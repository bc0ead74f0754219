"""What was asked of a launch: whose settings, how it may be changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from vtune.cli.asked import asked_experiment
from vtune.config.command_line import CommandLine, read_command_line
from vtune.config.problems import ConfigErrors, Problem
from vtune.config.quantities import parse_count, parse_duration
from vtune.launcher.plan import PlannedLaunch, plan_launch
from vtune.reporting.study_report import find_report

T = TypeVar("T")


def asked_launch(
    config: str | None,
    typed: CommandLine,
    results: Path,
    *,
    best: bool,
    trial: str | None,
    resume: bool,
    rescale: bool,
    step_down: bool,
    grace: str | None,
    force: bool = False,
    starts: bool = True,
) -> tuple[PlannedLaunch, tuple[str, ...]]:
    problems: list[Problem] = []

    def read(option: str, text: str | None, parse: Callable[[object], T], example: str) -> T | None:
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            hint = getattr(error, "hint", None) or f"for example {option} {example}"
            problems.append(Problem(message=f"{option} {error}", hint=hint))
            return None

    number, grace_s = read("--trial", trial, parse_count, "2"), read("--grace", grace, parse_duration, "2m")
    extra = read_command_line(typed, problems).settings
    if best and trial is not None:
        problems.append(Problem(message=f"both --best and --trial {trial} were given", hint="give one of them"))
    if problems:
        raise ConfigErrors(problems)
    # What is set here comes on top of the trial's settings, and is none of the experiment's own.
    asked = asked_experiment(config, None, replace(typed, sets=()), results, verb="launch", starts=starts)
    experiment = asked.experiment if grace_s is None else replace(asked.experiment, grace_s=grace_s)
    report = find_report(experiment.study, results=results, limits=experiment.limits)
    planned = plan_launch(
        experiment,
        report,
        trial=number,
        step_down=step_down,
        rescale=rescale,
        resume=resume,
        extra=extra,
        typed=(*_typed_again(config, typed, grace, experiment.study), *(["--force"] if force else [])),
    )
    return planned, asked.notes


def _typed_again(config: str | None, typed: CommandLine, grace: str | None, study: str) -> tuple[str, ...]:
    """Nothing in the study knows of it. A config may have been changed since the study keeps its copy of it."""
    options = (
        ("--config", config),
        ("--study", study if config is None else typed.study),
        ("--vram-limit", typed.vram_limit),
        ("--ram-limit", typed.ram_limit),
        ("--grace", grace),
    )
    return tuple(word for option, text in options if text is not None for word in (option, text))
