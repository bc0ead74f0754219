"""An experiment file read for its words alone: the training that it names may be on another machine by now."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from vtune.config.commands import study_name
from vtune.config.document import read_document
from vtune.config.find import find_config
from vtune.config.load import load_experiment
from vtune.config.models import SECTION, read_section
from vtune.config.problems import ConfigErrors, Problem
from vtune.domain.experiment import Experiment, Limits, Price
from vtune.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    study: str | None = None
    limits: Limits = field(default_factory=Limits)
    price: Price | None = None
    # None where the training's own config or program is not here.
    experiment: Experiment | None = None
    # And then why.
    unread: UsageError | None = None


def remember(path: str | Path) -> Remembered:
    """Raises only where the file itself says nothing that can be understood."""
    try:
        whole = load_experiment(path, last_of_two=True)
        return Remembered(study=whole.study, limits=whole.limits, price=whole.price, experiment=whole)
    except ConfigErrors as error:
        found = _section_alone(path)
        if found is None:
            raise
        return replace(found, unread=error)


def _section_alone(path: str | Path) -> Remembered | None:
    problems: list[Problem] = []
    file = find_config(path, problems)
    document = read_document(file, problems) if file is not None else None
    if file is None or document is None or SECTION not in document.data:
        return None
    read = read_section(document, problems)
    # A misspelt key may be the very limit that was meant.
    if read is None or problems:
        return None
    limits = read.section.limits
    return Remembered(
        study=read.section.study or study_name(file.stem),
        limits=Limits(vram=limits.vram, ram=limits.ram) if limits is not None else Limits(),
        price=read.section.price,
    )
