"""The peers' own environment: made once, in a cache folder outside of the repository, never in vtune's."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONSTRAINTS = HERE / "constraints.txt"
PEERS = ("loadtune", "autovram", "lightning", "optuna")
MINUTES = 20


class NoPeers(Exception):
    """In a sentence, what pip said."""


def peers_python(cache: Path | None = None) -> Path:
    """The interpreter that has the peers; makes it where it is not there yet."""
    folder = (cache or default_cache()) / f"peers-{_fingerprint()}"
    python = folder / "bin" / "python"
    if python.exists():
        return python
    # Under another name until it is whole: an environment that was interrupted is never taken for one.
    half = folder.with_name(f"{folder.name}.{os.getpid()}")
    half.parent.mkdir(parents=True, exist_ok=True)
    try:
        venv.create(half, with_pip=True, symlinks=True)
        _pip(half / "bin" / "python", ["torch"])
        _pip(half / "bin" / "python", PEERS)
        with contextlib.suppress(FileExistsError, OSError):
            half.rename(folder)
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return python


def default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vtune-traps"


def _fingerprint() -> str:
    return hashlib.sha256(CONSTRAINTS.read_bytes() + sys.version.encode()).hexdigest()[:10]


def _pip(python: Path, packages: list[str] | tuple[str, ...]) -> None:
    """torch comes alone and first: pinned to a CPU build, it is there or nothing is installed."""
    command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile"]
    try:
        ran = subprocess.run(
            [*command, "-c", str(CONSTRAINTS), *packages],
            capture_output=True, text=True, timeout=MINUTES * 60, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise NoPeers(f"pip was not done with {' '.join(packages)} after {MINUTES} minutes") from None
    if ran.returncode:
        words = [line for line in ran.stderr.splitlines() if line.startswith("ERROR")] or ran.stderr.splitlines()[-1:]
        hint = " (pip must be offered PyTorch's CPU builds: PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL)"
        raise NoPeers("; ".join(words)[:400] + (hint if "torch" in packages else ""))
