"""The tuners: each is asked once a trap, under the same time cap, for settings out of the same space."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from children import forget_files, neighbour, run_child

from traps import DECLARED_CORES, HERE, KNOBS, TRAININGS, Settings, Trap, key_of, settled
from truth import Place, training_flags

CAP_S = 75.0


@dataclass(frozen=True, kw_only=True)
class Tuner:
    name: str
    words: str
    program: str
    # Why it cannot be asked about a trap, in a sentence; None where it can.
    refuses: Callable[[Trap], str | None]


def _batch_only(trap: Trap) -> str | None:
    return None if "batch_size" in trap.space else "not made for this: it looks for a batch size"


def _loader_only(trap: Trap) -> str | None:
    if trap.is_iterable:
        return "not made for this: its loader shuffles, which an iterable data set refuses"
    if all(len(values) == 1 for knob, values in trap.space.items() if knob != "batch_size"):
        return "not made for this: it looks for a batch size by CUDA's counters of memory alone"
    return None


TUNERS = (
    Tuner(
        name="loadtune",
        words="`loadtune tune WORKLOAD --steps 50 --auto-batch`",
        program="loadtune_tune.py",
        refuses=_loader_only,
    ),
    Tuner(
        name="autovram",
        words="`autotune_batch_size` of its library, samples a second",
        program="autovram_tune.py",
        refuses=_batch_only,
    ),
    Tuner(
        name="lightning",
        words='`Tuner.scale_batch_size(mode="power")`',
        program="lightning_finder.py",
        refuses=_batch_only,
    ),
    Tuner(
        name="optuna",
        words="TPE, up to 20 trials, mean of the last 50 of 60 steps",
        program="optuna_last_50.py",
        refuses=lambda trap: None,
    ),
)
TUNER_NAMES = tuple(tuner.name for tuner in TUNERS)


def ask(tuner: Tuner, trap: Trap, place: Place, python: Path) -> dict[str, Any]:
    """A row: what it chose and claims, or why there is no choice."""
    if why := tuner.refuses(trap):
        return {"tuner": tuner.name, "refused": why}
    told = {
        "script": str(trap.script),
        "trainings": str(TRAININGS),
        "training": trap.name,
        "baseline": dict(trap.baseline),
        "space": {knob: list(values) for knob, values in trap.space.items()},
        "flags": training_flags(trap, settled(trap, trap.baseline), place),
        "cores": DECLARED_CORES,
        "cap_s": CAP_S,
        "quick": place.quick,
    }
    if trap.has_files:
        forget_files(place.data)
    scratch = place.scratch / tuner.name
    scratch.mkdir(exist_ok=True)
    with neighbour(trap.has_neighbour):
        ended = run_child(
            [python, HERE / "peers" / tuner.program],
            cap_s=CAP_S, cwd=scratch, env={"TRAP": json.dumps(told)}, ram_limit_bytes=trap.ram_limit_bytes,
            shm_bytes=trap.shm_bytes,
        )  # fmt: skip
    row: dict[str, Any] = {"tuner": tuner.name, "seconds": ended.seconds, "choice": None, "claimed": None}
    if ended.cut == "time":
        return {**row, "failed": f"no choice within {CAP_S:.0f} s"}
    if ended.cut == "ram":
        return {**row, "failed": "went over the RAM limit itself"}
    try:
        answer = json.loads(ended.stdout.strip().splitlines()[-1])
        choice = chosen(trap, answer["choice"])
    except (ValueError, IndexError, KeyError, TypeError):
        return {**row, "failed": ended.last_words}
    besides = {"besides": answer["besides"]} if answer.get("besides") else {}
    return {**row, "choice": choice, "key": key_of(choice), "claimed": answer["claimed"], **besides}


def chosen(trap: Trap, choice: Settings) -> Settings:
    return settled(trap, {knob: choice[knob] for knob in KNOBS})
