"""The checks of `make check`: what is written about the house holds for the house."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

# Nobody's text: environments, caches, results and what tools leave behind.
NOT_OURS = {".git", ".venv", "__pycache__", "build", "dist"}


@pytest.fixture(scope="session")
def tracked_files(root: Path, outside: dict[str, str]) -> list[Path]:
    """What git holds or would take; in an unpacked archive, everything but caches."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        env=outside,
        capture_output=True,
        text=True,
    )
    if listed.returncode == 0:
        found = [root / name for name in listed.stdout.split("\0") if name]
    else:
        found = [path for path in root.rglob("*") if not NOT_OURS.intersection(path.relative_to(root).parts)]
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


@pytest.fixture(scope="session")
def pages(tracked_files: list[Path]) -> list[Path]:
    return [path for path in tracked_files if path.suffix == ".md"]
