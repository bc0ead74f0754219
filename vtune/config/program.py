"""Which program a bare `python` is."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from vtune.config.commands import search_path
from vtune.config.installed import named_folders, package_folders, torch_version

BARE = ("python", "python3")
# An interpreter on a cold network disk takes seconds to start; after this it is taken as it is.
ASK_TIMEOUT_S = 15.0
_ASK = "import importlib.util,sys; print(sys.prefix); sys.exit(importlib.util.find_spec('torch') is None)"


def resolve_program(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], *, ask: bool = True
) -> tuple[tuple[str, ...], str | None]:
    """The command with its program as found on the PATH, and a line for stderr when that is not the whole truth.

    Somebody who calls vtune by its path, without activating its environment, means the Python that has torch. Which one
    has it is asked by starting it; where nothing may be started (`ask` is False), its files tell."""
    program, *rest = command
    if program not in BARE:
        found = None if "/" in program else shutil.which(program, path=search_path(env))
        return (found or program, *rest), None
    found = shutil.which(program, path=search_path(env))
    if found is None:
        return (sys.executable, *rest), f"there is no {program} on the PATH; using vtune's own, {sys.executable}"
    if _is_own(found) or importlib.util.find_spec("torch") is None:
        return (found, *rest), None
    prefix, has_torch = _ask(found, cwd, env) if ask else (None, _has_torch(found, cwd, env))
    if has_torch is False and prefix != sys.prefix:
        return (sys.executable, *rest), f"{found} has no torch; using vtune's own Python, {sys.executable}"
    return (found, *rest), None


def _is_own(path: str) -> bool:
    # By folder and not through links: every virtual environment's python links to the same system Python.
    return os.path.dirname(os.path.abspath(path)) == os.path.dirname(os.path.abspath(sys.executable))


def torch_of(python: str, cwd: Path, env: Mapping[str, str]) -> str | None:
    """Its version, without starting anything; None where there is none, or the files do not tell."""
    return torch_version(_packages(python, cwd, env))


def _has_torch(python: str, cwd: Path, env: Mapping[str, str]) -> bool | None:
    packages = _packages(python, cwd, env)
    return torch_version(packages) is not None if packages else None


def _packages(python: str, cwd: Path, env: Mapping[str, str]) -> list[Path]:
    found = package_folders(python)
    return [*named_folders({**os.environ, **env}.get("PYTHONPATH"), cwd), *found] if found else []


def _ask(python: str, cwd: Path, env: Mapping[str, str]) -> tuple[str | None, bool | None]:
    try:
        answer = subprocess.run(
            [python, "-c", _ASK],
            cwd=cwd,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ASK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, None
    lines = answer.stdout.splitlines()
    if answer.returncode not in (0, 1) or not lines:
        return None, None
    return lines[-1], answer.returncode == 0
