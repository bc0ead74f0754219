"""What each table of figures says of itself: the machine it was taken on, and its place in a README."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path


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


def into_readme(path: Path, text: str, begin: str, end: str) -> None:
    """Between the two markers, which stay."""
    before, found, rest = path.read_text(encoding="utf-8").partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise SystemExit(f"error: {path.name} has lost its markers {begin} and {end}")
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")
