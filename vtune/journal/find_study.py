"""Which study of a results folder is meant, found by reading alone."""

from __future__ import annotations

import os
from pathlib import Path

from vtune.domain.experiment import is_study_name
from vtune.errors import UsageError
from vtune.foreign.read import read_text
from vtune.journal.paths import StudyPaths, last_study_file
from vtune.knobs.spelling import nearest

# As many names as fit on a line or two of a hint.
NAMES_SHOWN = 8
# Of the file that names the last study: a name has 64 letters at most.
MOST_BYTES = 1024


def find_study(results: Path, named: str | None) -> StudyPaths:
    """The one that is named, or else the one that vtune used last here."""
    names = study_names(results)
    name = named if named is not None else last_study(results)
    if name in names:
        return StudyPaths(results / name)
    if named is not None:
        what = f"there is no study {named} in {results}"
    elif not names:
        what = f"{results} holds no study" if os.path.isdir(results) else f"there is no folder {results}"
    else:
        what = f"no study was named, and {results} does not tell which one was used last"
    raise UsageError(what, hint=_hint(named, names))


def study_names(results: Path) -> list[str]:
    try:
        folders = sorted(entry for entry in results.iterdir() if not entry.name.startswith("."))
    except OSError:
        return []
    return [folder.name for folder in folders if _is_study(StudyPaths(folder))]


def _is_study(paths: StudyPaths) -> bool:
    try:
        return os.path.isfile(paths.journal) or os.path.isfile(paths.experiment)
    except OSError:  # a folder that we may not look into
        return False


def last_study(results: Path) -> str | None:
    """None where nobody has used one, and where the file holds anything but a study's name."""
    try:
        name = read_text(last_study_file(results), most=MOST_BYTES).strip()
    except (OSError, ValueError):
        return None
    return name if is_study_name(name) else None


def _hint(named: str | None, names: list[str]) -> str:
    if not names:
        return "name another results folder with --results DIR, or measure something: vtune probe --config FILE"
    meant = nearest(named, names) if named is not None else None
    shown = ", ".join(names[:NAMES_SHOWN]) + (" ..." if len(names) > NAMES_SHOWN else "")
    return f"{f'did you mean --study {meant}? ' if meant else ''}studies there: {shown}"
