"""What `vtune probe` says of the author's own settings and of the bait: a rate to hold against the truth, or an end."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from children import INTERRUPT_S, forget_files, neighbour, run_child, vtune_env
from tuners import CAP_S

from traps import MIB, Settings, Trap, key_of
from truth import Place, training_flags

# A rate that is as near to the truth as this is called right.
RIGHT = 0.10
STATUSES = {
    "ram": ("out_of_ram", "refused"),
    "vram": ("out_of_vram", "refused"),
    "shm": ("out_of_shm", "refused"),
    "worker": ("crashed",),
    "twice": ("invalid",),
}


def probe(trap: Trap, settings: Settings, place: Place, study: str) -> dict[str, Any]:
    arguments: list[str] = ["--json", "--quiet", "--study", study, "--results", str(place.scratch / "vtune")]
    if trap.ram_limit_bytes:
        arguments += ["--ram-limit", f"{trap.ram_limit_bytes // MIB}MiB"]
    training = [sys.executable, str(trap.script), *training_flags(trap, settings, place)]
    if trap.has_files:
        forget_files(place.data)
    with neighbour(trap.has_neighbour):
        ended = run_child(
            [sys.executable, "-m", "vtune", "probe", *arguments, "--", *training],
            cap_s=CAP_S + INTERRUPT_S, cwd=place.scratch, env=vtune_env(trap.has_neighbour), shm_bytes=trap.shm_bytes,
        )  # fmt: skip
    row: dict[str, Any] = {"key": key_of(settings), "seconds": ended.seconds}
    told = _json(ended.stdout)
    trial = told.get("trial") if told else None
    if not isinstance(trial, dict):
        said = (told or {}).get("error") or ended.last_words
        return {**row, "failed": said if ended.cut is None else "no answer in time"}
    kept = (
        "status", "detail", "samples_per_s", "samples_per_epoch", "projected", "bottleneck", "ram_projected_bytes",
        "shm_needed_bytes", "vram_validation_peak_bytes", "cache",
    )  # fmt: skip
    words = {name: told.get(name) for name in ("verdict", "why", "next")} if told else {}
    return {**row, **{name: trial.get(name) for name in kept}, **words}


def _json(text: str) -> dict[str, Any] | None:
    try:
        told = json.loads(text)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def judged(trap: Trap, row: Mapping[str, Any], true: float | None, *, of_bait: bool) -> tuple[bool, str]:
    """Does this probe lead anybody into the trap? With the words that go into the table."""
    if failed := row.get("failed"):
        return False, f"no answer: {failed}"
    status = row["status"]
    rate = _rate(row)
    if of_bait and trap.bait_ends:
        seen = _sees_the_end(trap, row)
        return seen, status if status != "completed" else "says what would end it" if seen else "sees nothing"
    if rate is None or not true:
        return False, str(status)
    off = rate / true - 1
    return abs(off) <= RIGHT, f"{off:+.0%}"


def _rate(row: Mapping[str, Any]) -> float | None:
    """Restarts between epochs included where they were seen; start-up apart, as in the truth."""
    samples, epoch_s = row.get("samples_per_epoch"), (row.get("projected") or {}).get("epoch_s")
    if samples and epoch_s:
        return float(samples / epoch_s)
    rate: float | None = row.get("samples_per_s")
    return rate


def _sees_the_end(trap: Trap, row: Mapping[str, Any]) -> bool:
    ends = trap.bait_ends or ""
    if row["status"] in STATUSES[ends]:
        return True
    if ends == "ram" and trap.ram_limit_bytes:
        return (row.get("ram_projected_bytes") or 0) > trap.ram_limit_bytes
    # Said in a sentence that a user reads, not in a field.
    sentences = " ".join([*(row.get("why") or ()), *(row.get("next") or ())])
    if ends == "shm":
        return "/dev/shm" in sentences
    if ends == "vram":
        return "validation" in sentences
    return False
