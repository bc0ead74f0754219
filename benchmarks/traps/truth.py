"""What each setting is really worth: the whole declared run, by itself, to its end or to its death."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from children import Ended, forget_files, run_child
from score import Truth

from traps import MIB, Settings, Trap, Value, flags, key_of

# The slowest whole run takes half a minute.
CAP_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a trap is played: a folder of its own, and shorter runs where only the harness is tried."""

    scratch: Path
    quick: bool

    @property
    def data(self) -> Path:
        return self.scratch / "files"


def training_flags(trap: Trap, settings: Mapping[str, Value], place: Place, *, is_trial: bool = True) -> list[str]:
    words = [*flags(settings), "--epochs", str(trap.epochs)]
    if is_trial and trap.first_step_s:
        words += ["--first-step", str(trap.first_step_s)]
    if trap.has_files:
        words += ["--data", str(place.data)]
    return words + (list(trap.quick) if place.quick else [])


def whole_run(trap: Trap, settings: Settings, place: Place) -> dict[str, Any]:
    """One row of the truth."""
    if trap.has_files:
        forget_files(place.data)
    ended = run_child(
        [sys.executable, trap.script, *training_flags(trap, settings, place, is_trial=False)],
        cap_s=CAP_S, cwd=place.scratch, ram_limit_bytes=trap.ram_limit_bytes, shm_bytes=trap.shm_bytes,
    )  # fmt: skip
    broke = _broke(trap, ended)
    told = None if broke else json.loads(ended.stdout)
    return {
        "key": key_of(settings),
        "settings": settings,
        "samples_per_s": told["samples_per_s"] if told else None,
        "broke": broke,
        "seconds": ended.seconds,
        "ram_peak_bytes": ended.ram_peak_bytes,
    }


def _broke(trap: Trap, ended: Ended) -> str | None:
    if ended.cut == "ram":
        return f"over its RAM limit of {(trap.ram_limit_bytes or 0) // MIB} MiB after {ended.seconds:.0f} s"
    if ended.cut == "time":
        return f"not done after {ended.seconds:.0f} s"
    if ended.code == 0:
        return None
    words = ended.stderr
    if "OutOfMemoryError" in words:
        return "out of device memory"
    if "shared memory" in words or "Bus error" in words:
        return "out of /dev/shm"
    if "DataLoader worker" in words:
        return "a loader worker was killed"
    return f"exit code {ended.code}: {ended.last_words}"


def truths_of(rows: list[dict[str, Any]]) -> dict[str, Truth]:
    return {row["key"]: Truth(samples_per_s=row["samples_per_s"], broke=row["broke"]) for row in rows}
