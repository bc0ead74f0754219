"""Files outside the protected folders that a trial wrote, and files that could not be kept: told by the hooks."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtune.journal.paths import TrialPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFiles:
    """Real paths, each once; a folder ends with a slash."""

    changed: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    # One process wrote more files than it tells, so that some are missing here.
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NotKept:
    """The training was refused a change, since the file's old state could not be kept."""

    # Empty where a Python could not be watched at all.
    path: str
    # As in the standard library's errno: ENOSPC, EACCES.
    error: str
    reason: str


def written_elsewhere(trial: TrialPaths) -> WrittenFiles:
    """To be read right after the trial's end: what the files are now is looked at here."""
    before: dict[str, Any] = {}
    is_cut = False
    for fact in _facts(trial):
        if fact["fact"] == "touched":
            before.setdefault(fact["path"], fact.get("before"))
        elif fact["fact"] == "more":
            is_cut = True
    changed, new, removed = [], [], []
    for path in sorted(before):
        try:
            there = os.lstat(path)
        except OSError:
            if before[path] is not None:
                removed.append(path)
            continue
        if before[path] is None:
            new.append(f"{path}/" if os.path.isdir(path) and not os.path.islink(path) else path)
        elif [there.st_ino, there.st_size, there.st_mtime_ns, there.st_mode] != before[path]:
            changed.append(path)
    return WrittenFiles(changed=tuple(changed), new=tuple(new), removed=tuple(removed), is_cut=is_cut)


def files_not_kept(trial: TrialPaths) -> tuple[NotKept, ...]:
    """In the order in which they were refused, each path once."""
    found: dict[str, NotKept] = {}
    for fact in _facts(trial):
        if fact["fact"] == "not_kept":
            number, path = fact.get("errno"), str(fact.get("path", ""))
            error = errno.errorcode.get(number, str(number)) if isinstance(number, int) else ""
            found.setdefault(path, NotKept(path=path, error=error, reason=str(fact.get("reason", ""))))
    return tuple(found.values())


def files_not_restored(trial: TrialPaths) -> dict[str, str]:
    """Path → reason."""
    try:
        found = json.loads(trial.not_restored.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(path): str(reason) for path, reason in found.items()} if isinstance(found, dict) else {}


def _facts(trial: TrialPaths) -> list[Mapping[str, Any]]:
    found = [fact for path in trial.file_facts() for fact in _lines(path)]
    # The first to touch a file has seen it as it was.
    return sorted(found, key=lambda fact: fact["t"])


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in text.split("\n"):
        try:
            fact = json.loads(line)
        except ValueError:  # torn by a kill
            continue
        if isinstance(fact, dict) and isinstance(fact.get("t"), float) and isinstance(fact.get("fact"), str):
            yield fact
