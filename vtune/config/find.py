"""Which file a name on the command line means."""

from __future__ import annotations

import os
from pathlib import Path

from vtune.config.problems import Problem
from vtune.knobs.spelling import nearest

CONFIGS = Path("configs")
ENDINGS = ("", ".yaml", ".yml")
# As many as fit on a line or two of a hint.
NAMES_SHOWN = 6
CONFIG_ENDINGS = (".yaml", ".yml", ".json", ".toml")


def find_config(name: str | Path, problems: list[Problem]) -> Path | None:
    """As given, then in configs/ for a bare name; an ending may be left out."""
    given = Path(name)
    folders = [given.parent]
    if given.parent == Path() and not given.is_absolute():
        folders.append(CONFIGS)
    candidates = [folder / f"{given.name}{ending}" for folder in folders for ending in ENDINGS]
    existing = [path for path in candidates if os.path.exists(path)]
    for path in existing:
        if not os.path.isdir(path):
            return path
    if existing:
        problems.append(
            Problem(where=str(existing[0]), message="is a directory, not a config file", hint="name a file in it")
        )
        return None
    problems.append(missing_file(given, folders))
    return None


def missing_file(path: Path, folders: list[Path] | None = None) -> Problem:
    folders = [path.parent] if folders is None else folders
    known: dict[str, Path] = {}
    for folder in folders:
        for found in _configs_in(folder):
            known.setdefault(found.name, found)
            known.setdefault(found.stem, found)
    # By the stem: a common ending makes any two names look alike.
    meant = nearest(path.stem, {stem for stem in known if not stem.endswith(CONFIG_ENDINGS)})
    there = sorted({str(found) for found in known.values()})
    if meant is not None:
        hint = f"did you mean {known[meant]}?"
    elif there:
        hint = f"there are: {', '.join(there[:NAMES_SHOWN])}" + (" ..." if len(there) > NAMES_SHOWN else "")
    else:
        hint = "there is no config file in " + " or ".join(str(folder.absolute()) for folder in folders)
    also = " (looked here and in configs/)" if CONFIGS in folders and path.parent == Path() else ""
    return Problem(where=str(path), message=f"no such file{also}", hint=hint)


def _configs_in(folder: Path) -> list[Path]:
    try:
        entries = list(folder.iterdir())
    except OSError:
        return []
    return sorted(entry for entry in entries if entry.suffix in CONFIG_ENDINGS)
