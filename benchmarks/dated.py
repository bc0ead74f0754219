"""What each table of figures says of itself: the machine it was taken on, its rows, and its place in a README."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any


def machine() -> str:
    """What it is, not whose."""
    cores = len(os.sched_getaffinity(0))
    ram = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    python = ".".join(platform.python_version_tuple()[:2])
    return (
        f"{cores} cores, {ram:.0f} GiB, {platform.system()} {'.'.join(platform.release().split('.')[:2])},"
        f" Python {python}, torch {version('torch')}"
    )


def commit() -> str:
    """With a mark where the code differs from it; figures and tables that a benchmark has just written do not."""
    version = _git("describe", "--always", "--abbrev=7")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)benchmarks/**/results/*")
    is_dirty = any(not line.endswith("README.md") for line in changed.splitlines())
    return f"{version}-dirty" if version and is_dirty else version or "unknown"


def _git(*words: str) -> str:
    asked = ["git", *words]
    return subprocess.run(asked, cwd=Path(__file__).parent, capture_output=True, text=True).stdout.strip()


def kept_rows(path: Path) -> dict[str, Any]:
    """The figures of earlier runs, by their names: a run of some of them replaces those only."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return told if isinstance(told, dict) and isinstance(told.get("rows"), dict) else {"rows": {}}
    except (OSError, ValueError):
        return {"rows": {}}


def keep_rows(path: Path, told: Mapping[str, Any]) -> None:
    """A line a row, so that a change of one shows as one; whole or as before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in told["rows"].items())
    head = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in told.items() if key != "rows")
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(f'{{\n{head} "rows": {{\n{rows}\n }}\n}}\n', encoding="utf-8")
    os.replace(beside, path)


def into_readme(path: Path, text: str, begin: str, end: str) -> None:
    """Between the two markers, which stay."""
    before, found, rest = path.read_text(encoding="utf-8").partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise SystemExit(f"error: {path.name} has lost its markers {begin} and {end}")
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")
