"""What a trial wrote outside its own folder: a checkpoint overwritten in silence would be the user's loss."""

from __future__ import annotations

import os
from pathlib import Path

# A look at a training's folder must not become a walk over a data set.
MOST_ENTRIES = 20_000
SHOWN = 8
NOT_LOOKED_INTO = frozenset((".git", ".venv", "venv", "__pycache__", "node_modules", ".mypy_cache"))

Files = dict[str, tuple[int, int]]


def files_below(folder: Path, but: Path) -> Files:
    """Path → (time of change, size), without vtune's own results and what no training writes."""
    found: Files = {}
    waiting = [folder]
    own = but.resolve()
    seen = 0
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop(0)))
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if seen > MOST_ENTRIES:
                return found
            try:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in NOT_LOOKED_INTO and Path(entry.path).resolve() != own:
                        waiting.append(Path(entry.path))
                else:
                    stat = entry.stat(follow_symlinks=False)
                    found[os.path.relpath(entry.path, folder)] = (stat.st_mtime_ns, stat.st_size)
            except OSError:
                continue
    return found


def written_notes(folder: Path, before: Files, after: Files) -> list[str]:
    new = sorted(after.keys() - before.keys())
    changed = sorted(name for name in after.keys() & before.keys() if after[name] != before[name])
    notes = []
    if changed:
        notes.append(f"changed in {folder} during the trial: {_some(changed)}")
    if new:
        notes.append(f"new in {folder} since the trial: {_some(new)}")
    return notes


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
