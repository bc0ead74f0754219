"""Links in a study's folder: what vtune writes there would land somewhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from vtune.errors import UsageError
from vtune.journal.paths import LaunchPaths, StudyPaths


def refuse_links(study: StudyPaths) -> None:
    """A study may come from somebody else. Below a trial's own folder the training may make links as it likes."""
    link = link_in(study)
    if link is not None:
        raise UsageError(
            f"{link} is a link to {os.readlink(link)}: vtune writes to no study through a link",
            hint="remove the link, or choose another place with --results DIR, or another study with --study NAME",
        )


def link_in(study: StudyPaths) -> Path | None:
    return next((path for path in _written_to(study) if path.is_symlink()), None)


def _written_to(study: StudyPaths) -> Iterator[Path]:
    yield study.root
    yield from _entries(study.root)
    yield from _entries(study.trials)
    for launch in _entries(study.launches):
        yield launch
        yield from _entries(launch)
        yield from _entries(LaunchPaths(launch).attempts)


def _entries(folder: Path) -> list[Path]:
    """Nothing of a folder that is a link, is none, or may not be looked into: the link itself is found above it."""
    try:
        return [] if folder.is_symlink() else sorted(folder.iterdir())
    except OSError:
        return []
