"""The files that a training wrote in a trial, in a few words, and the files below a folder."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from vtune.domain.experiment import PlannedRun
from vtune.domain.numbers import bytes_
from vtune.domain.record import Measurement
from vtune.execution.overlay import read_protection
from vtune.journal.file_facts import files_not_kept, files_not_restored, written_elsewhere
from vtune.journal.files import dump_json
from vtune.journal.paths import TrialPaths

# A look at a training's folder must not become a walk over a data set.
MOST_ENTRIES = 20_000
SHOWN = 8
# Of a run of unknown length: a disk that is full by then is worth a word.
FEW_EPOCHS = 100
# Nothing of this happened to the user's files: it is all in the trial's folder.
_KINDS = {
    "changed": "left as they were, though the training overwrote them (in its own copy)",
    "removed": "left in place, though the training removed them (in its own copy)",
    "new": "written by the training, into the trial's folder",
}
# These happened.
_REAL = {
    "changed": "changed for real, outside the protected folders (vtune.protect adds theirs)",
    "removed": "removed for real, outside the protected folders (vtune.protect adds theirs)",
    "new": "new outside the protected folders",
}
_ALLOWED = {
    "changed": "changed for real, as --allow-writes asked",
    "removed": "removed for real, as --allow-writes asked",
    "new": "new, as --allow-writes asked",
}
NOT_LOOKED_INTO = frozenset((".git", ".venv", "venv", "__pycache__", "node_modules", ".mypy_cache"))

Files = dict[str, tuple[int, int]]


def files_below(folder: Path, but: Path, *more: Path, most: int = MOST_ENTRIES) -> Files:
    """Path → (time of change, size), without vtune's own results and what no training writes."""
    found: Files = {}
    waiting = [folder]
    own = {one.resolve() for one in (but, *more)}
    seen = 0
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop(0)))
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if seen > most:
                return found
            try:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in NOT_LOOKED_INTO and Path(entry.path).resolve() not in own:
                        waiting.append(Path(entry.path))
                else:
                    stat = entry.stat(follow_symlinks=False)
                    found[os.path.relpath(entry.path, folder)] = (stat.st_mtime_ns, stat.st_size)
            except OSError:
                continue
    return found


def written_notes(folder: TrialPaths, cwd: Path) -> list[str]:
    """One line a kind, from the list that the trial's end left: shortened here, whole in written.json."""
    written = _listed(folder)
    notes = []
    for kind, words in _KINDS.items():
        names = sorted(_near(str(name), cwd) for name in written.get(kind) or ())
        if names:
            notes.append(f"{words}: {_some(names)}")
    return notes


def disk_note(measured: Measurement, planned: PlannedRun, folder: Path) -> list[str]:
    """Of checkpoints that stay; of a run whose number of epochs is not known, when the disk is full."""
    each = measured.disk_bytes_per_epoch
    if not each:
        return []
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return []
    whole = each * planned.epochs if planned.epochs else None
    if (each * FEW_EPOCHS if whole is None else whole) < free:
        return []
    run = f", {bytes_(whole)} in the run" if whole is not None else ""
    return [
        f"checkpoints leave {bytes_(each)} an epoch{run}: the disk of {folder} has {bytes_(free)} free, and is full"
        f" after {max(0, int(free // each))} epochs"
    ]


def list_elsewhere(folder: TrialPaths, study: Path) -> list[str]:
    """Adds the changes outside the protected folders to written.json, and says them: they are real. The study's own
    folder is left out."""
    elsewhere, own = written_elsewhere(folder), os.path.realpath(study) + "/"
    found = {
        kind: [path for path in getattr(elsewhere, kind) if not f"{path}/".startswith(own)]
        for kind in ("changed", "removed", "new")
    }
    if not any(found.values()):
        return []
    with contextlib.suppress(OSError):
        dump_json(folder.written, {**_listed(folder), "outside": {**found, "is_cut": elsewhere.is_cut}})
    more = " (and more than vtune lists)" if elsewhere.is_cut else ""
    said = _ALLOWED if read_protection(str(folder.root)).get("by") == "none" else _REAL
    return [f"{words}: {_some(found[kind])}{more}" for kind, words in said.items() if found[kind]]


def trouble_notes(folder: TrialPaths) -> list[str]:
    """Files that could not be kept, so that the training was refused a write, or that could not be put back."""
    notes = [
        f"NOT PUT BACK: {path} ({reason}); its old state is in {folder.root / 'kept'}"
        for path, reason in files_not_restored(folder).items()
    ]
    refused = files_not_kept(folder)
    if refused:
        first = refused[0]
        notes.append(
            f"the training was refused to write {first.path}, since vtune could not keep its old state"
            f" ({first.reason}); --trial-disk gives it more room, --allow-writes lets it write for real"
        )
    return notes


def _listed(folder: TrialPaths) -> dict[str, Any]:
    try:
        written = json.loads(folder.written.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return written if isinstance(written, dict) else {}


def _near(name: str, cwd: Path) -> str:
    return os.path.relpath(name, cwd) + ("/" if name.endswith("/") else "") if Path(name).is_relative_to(cwd) else name


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
