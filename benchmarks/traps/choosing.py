"""What `vtune phase` and `vtune search` choose: from the peers' space and the author's own settings, by real trials."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from children import INTERRUPT_S, forget_files, neighbour, run_child, vtune_env

from traps import MIB, Settings, Trap, key_of, settled
from truth import Place, training_flags

# Not the peers' 75 seconds: vtune launches the very training, and launches the winner again. What it took is told.
CAP_S, SEARCH_CAP_S = 420.0, 600.0
# As the peers' script.
TRIALS = 20
# The bundled plan's order, of the knobs that this trap has; workers once more, for another batch asks for others.
ORDER = ("batch_size", "workers", "prefetch_factor", "persistent_workers")


def plan_of(trap: Trap) -> dict[str, Any]:
    free = [knob for knob in ORDER if len(trap.space.get(knob, ())) > 1]
    again = ["workers"] if "workers" in free and len(free) > 1 else []
    return {"phases": [{"by_model": knob} for knob in (*free, *again)]}


def experiment_of(trap: Trap, place: Place, study: str) -> dict[str, Any]:
    own = settled(trap, trap.baseline)
    vtune: dict[str, Any] = {
        "command": [sys.executable, str(trap.script), *training_flags(trap, own, place)],
        "study": f"{study}-{trap.name}",
        "knobs": {
            **{knob: {"values": list(trap.space.get(knob, (own[knob],)))} for knob in ORDER},
            # No peer is asked about it.
            "pin_memory": {"values": [False]},
        },
    }
    if trap.ram_limit_bytes:
        vtune["limits"] = {"ram": f"{trap.ram_limit_bytes // MIB}MiB"}
    return {"vtune": vtune}


def phase(trap: Trap, place: Place) -> dict[str, Any]:
    """A row as the peers' ones."""
    plan = _folder(place, "phase") / "plan.yaml"
    plan.write_text(yaml.safe_dump(plan_of(trap)), encoding="utf-8")
    return _asked(trap, place, "phase", ["--plan", str(plan)], cap_s=CAP_S)


def search(trap: Trap, place: Place) -> dict[str, Any]:
    return _asked(trap, place, "search", ["--trials", str(2 if place.quick else TRIALS)], cap_s=SEARCH_CAP_S)


def _folder(place: Place, command: str) -> Path:
    folder = place.scratch / command
    folder.mkdir(exist_ok=True)
    return folder


def _asked(trap: Trap, place: Place, command: str, words: Sequence[str], *, cap_s: float) -> dict[str, Any]:
    scratch = _folder(place, command)
    experiment = scratch / "experiment.yaml"
    experiment.write_text(yaml.safe_dump(experiment_of(trap, place, command)), encoding="utf-8")
    if trap.has_files:
        forget_files(place.data)
    words = ["--config", str(experiment), *words, "--json", "--quiet", "--results", str(scratch)]
    with neighbour(trap.has_neighbour):
        ended = run_child(
            [sys.executable, "-m", "vtune", command, *words],
            cap_s=cap_s + INTERRUPT_S, cwd=scratch, env=vtune_env(trap.has_neighbour), shm_bytes=trap.shm_bytes,
        )  # fmt: skip
    row: dict[str, Any] = {"tuner": f"vtune {command}", "seconds": ended.seconds, "choice": None, "claimed": None}
    try:
        told = json.loads(ended.stdout)
        best, trials = told.get("best"), told["trials"]
    except (ValueError, KeyError, AttributeError):
        return {**row, "failed": ended.last_words if ended.cut is None else "no answer in time"}
    row["trials"] = len(trials)
    if best is None:
        return {**row, "failed": told.get("error") or "nothing was feasible"}
    choice = _choice(trap, best["settings"])
    claimed = told["speedup"] if best["trial"] != (told["baseline"] or {}).get("trial") else None
    return {**row, "choice": choice, "key": key_of(choice), "claimed": claimed}


def _choice(trap: Trap, settings: dict[str, Any]) -> Settings:
    known = {knob: value for knob, value in settings.items() if knob in ORDER and value is not None}
    return settled(trap, known)
