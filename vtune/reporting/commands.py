"""Commands that a report gives to be pasted: each word is safe in a shell, whatever a journal or a config holds."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.errors import UsageError
from vtune.knobs.own import LONGEST_WORD
from vtune.knobs.registry import knob_named
from vtune.knobs.settings import check_value
from vtune.reporting.study_report import StudyReport
from vtune.reporting.words import setting_word


def probe_command(report: StudyReport, settings: Mapping[str, Scalar]) -> str:
    """What measures these settings in this study: through the config that the user wrote, where it is still here."""
    words = ["vtune", "probe"]
    words += ["--study", report.study] if report.config is None else ["--config", near(report.config)]
    results = report.folder.parent
    words += [] if results == Path("results") else ["--results", near(results)]
    for name, value in settings.items():
        # A journal is no authority on what may be pasted.
        if is_setting(name, value, report.experiment):
            words += ["--set", f"{name}={setting_word(value, LONGEST_WORD)}"]
    return shlex.join(words)


def winner_command(report: StudyReport, verb: str) -> str:
    """`vtune launch` or `vtune apply` of what was chosen. Through the study, which remembers also the limits that were
    typed; a what-if's are in no study."""
    words = ["vtune", verb, "--study", report.study]
    results = report.folder.parent
    words += [] if results == Path("results") else ["--results", near(results)]
    if report.what_if is not None:
        for option, limit in (("--ram-limit", report.limits.ram), ("--vram-limit", report.limits.vram)):
            words += [option, limit.text] if limit is not None else []
    return shlex.join(words)


def race_command(report: StudyReport, one: int, other: int) -> str:
    """What launches the settings of two of its trials in turns, until it is clear which is faster."""
    words = ["vtune", "compare", f"{report.study}:{one}", f"{report.study}:{other}", "--race"]
    results = report.folder.parent
    return shlex.join([*words, *([] if results == Path("results") else ["--results", near(results)])])


def near(path: Path) -> str:
    """As it would be typed here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def is_setting(name: str, value: Scalar, experiment: Experiment | None) -> bool:
    """Whether it is one that vtune turns."""
    try:
        check_value(knob_named(name, experiment.knobs if experiment is not None else ()), value)
    except UsageError:
        return False
    return True
