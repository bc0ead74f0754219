"""The real trainings: their spaces, how a search is asked about them, and how fast a longer launch of them is."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from children import INTERRUPT_S, run_child
from choosing import experiment_of

from traps import BY_NAME, settled
from truth import Place, whole_run

ROOT = Path(__file__).resolve().parents[2]
CAP_S = 1800.0
Settings = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Bench:
    name: str
    words: str
    own: Settings
    space: Mapping[str, Sequence[Any]]
    # An experiment's file: the study's name, the folder, whether it is but tried.
    experiment: Callable[[Mapping[str, Sequence[Any]], str, Path, bool], dict[str, Any]]
    # Samples a second of a longer launch of its own; None where it does not come to its end.
    rate: Callable[[Settings, Path, bool], float | None]
    # Measured steps of each trial, where the usual number takes too long for a whole grid.
    steps: int | None = None

    @property
    def size(self) -> int:
        """Without workers, what belongs to workers is one."""
        for_workers = math.prod(
            len(values) for knob, values in self.space.items() if knob in ("prefetch_factor", "persistent_workers")
        )
        others = math.prod(len(self.space[knob]) for knob in self.space if knob == "batch_size")
        workers = [value for value in self.space["workers"] if value]
        return others * (len(workers) * for_workers + (0 in self.space["workers"]))

    @property
    def fingerprint(self) -> str:
        told = repr((dict(self.own), {knob: tuple(values) for knob, values in self.space.items()}, self.steps))
        return hashlib.sha256(told.encode()).hexdigest()[:12]

    def key(self, settings: Settings) -> str:
        words = {"workers": "workers", "batch_size": "batch", "prefetch_factor": "prefetch"}
        full = {**self.own, **settings}
        shown = [f"{words[knob]} {full[knob]}" for knob in words if knob in self.space or knob == "workers"]
        if not full["workers"]:
            shown = [word for word in shown if not word.startswith("prefetch")]
        if full["workers"] and len(self.space.get("persistent_workers", ())) > 1:
            shown.append("persistent" if full["persistent_workers"] else "anew")
        return ", ".join(shown)

    def search(self, name: str, words: Sequence[str], place: Path, quick: bool) -> dict[str, Any]:
        scratch = place / name
        scratch.mkdir(exist_ok=True)
        experiment = scratch / "experiment.yaml"
        told = self.experiment(self.space, name, scratch, quick)
        experiment.write_text(yaml.safe_dump(told), encoding="utf-8")
        steps = ["--steps", str(self.steps)] if self.steps is not None else []
        ended = run_child(
            [sys.executable, "-m", "vtune", "search", "--config", experiment, *words, *steps, "--json", "--quiet",
             "--results", scratch],
            cap_s=CAP_S + INTERRUPT_S, cwd=scratch, env={"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        try:
            answer = json.loads(ended.stdout)
            best, trials = answer.get("best"), answer.get("trials") or []
        except (ValueError, AttributeError):
            return {"failed": ended.last_words if ended.cut is None else "no answer in time"}
        if best is None:
            return {"failed": answer.get("error") or "nothing was feasible"}
        found = {knob: value for knob, value in best["settings"].items() if knob in self.own and value is not None}
        return {"choice": {**self.own, **found}, "trials": len(trials)}


def _trap(name: str, words: str, space: Mapping[str, Sequence[Any]]) -> Bench:
    """A trap's training, with a wider space than the peers are asked about."""
    trap = replace(BY_NAME[name], space=space)

    def experiment(space: Mapping[str, Sequence[Any]], study: str, place: Path, quick: bool) -> dict[str, Any]:
        return experiment_of(replace(trap, space=space), Place(scratch=place, quick=quick), study)

    def rate(settings: Settings, place: Path, quick: bool) -> float | None:
        told = whole_run(trap, settled(trap, dict(settings)), Place(scratch=place, quick=quick))
        found: float | None = told["samples_per_s"]
        return found

    return Bench(
        name=name, words=words, own=settled(trap, trap.baseline), space=space, experiment=experiment, rate=rate
    )


QUICKSTART_OWN = {"workers": 1, "batch_size": 2, "prefetch_factor": 2, "persistent_workers": False}
LONGER_STEPS, QUICK_STEPS = 80, 6


def _quickstart_experiment(space: Mapping[str, Sequence[Any]], study: str, place: Path, quick: bool) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((ROOT / "configs" / "quickstart.yaml").read_text(encoding="utf-8"))
    config["output_dir"] = str(place / "output")
    config["vtune"]["study"] = f"{study}-quickstart"
    held = {knob: {"values": [value]} for knob, value in QUICKSTART_OWN.items() if knob not in space}
    config["vtune"]["knobs"] = {
        **held,
        **{knob: {"values": list(values)} for knob, values in space.items()},
        "pin_memory": {"values": [False]},
    }
    return config


def _quickstart_rate(settings: Settings, place: Path, quick: bool) -> float | None:
    """By a longer trial: its whole run takes minutes."""
    scratch = place / "longer"
    scratch.mkdir(exist_ok=True)
    experiment = scratch / "experiment.yaml"
    told = _quickstart_experiment({}, "longer", scratch, quick)
    del told["vtune"]["knobs"]
    experiment.write_text(yaml.safe_dump(told), encoding="utf-8")
    turned = {knob: value for knob, value in settings.items() if QUICKSTART_OWN[knob] != value}
    if not settings["workers"]:
        turned = {knob: value for knob, value in turned.items() if knob in ("workers", "batch_size")}
    words = [word for knob, value in turned.items() for word in ("--set", f"{knob}={str(value).lower()}")]
    steps = str(QUICK_STEPS if quick else LONGER_STEPS)
    ended = run_child(
        [sys.executable, "-m", "vtune", "probe", "--config", experiment, *words, "--steps", steps, "--json", "--quiet",
         "--results", scratch],
        cap_s=CAP_S, cwd=scratch, env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        rate: float | None = json.loads(ended.stdout)["trial"]["samples_per_s"]
    except (ValueError, KeyError, TypeError):
        return None
    return rate


BENCHES = (
    Bench(
        name="quickstart",
        words="`configs/quickstart.yaml`, 20 steps a trial; longer launches: trials of 80 steps",
        own=QUICKSTART_OWN,
        space={
            "workers": (0, 1, 2, 3),
            "batch_size": (1, 2, 4),
            "prefetch_factor": (2, 4),
            "persistent_workers": (False, True),
        },
        experiment=_quickstart_experiment,
        rate=_quickstart_rate,
        steps=20,
    ),
    _trap(
        "heavy_tail",
        "the trap of heavy-tailed samples; longer launches: whole runs",
        {"workers": (1, 2, 3, 4, 6, 8), "prefetch_factor": (1, 2, 4, 8), "persistent_workers": (False, True)},
    ),
    _trap(
        "half_batch",
        "the trap of a batch slower than its half; longer launches: whole runs",
        {"workers": (0, 1, 2, 4, 6), "batch_size": (1, 2, 4, 8, 16), "prefetch_factor": (2, 4)},
    ),
    _trap(
        "short_epochs",
        "the trap of short epochs with costly restarts; longer launches: whole runs",
        {"workers": (0, 1, 2, 3, 4, 6), "persistent_workers": (False, True), "prefetch_factor": (1, 2, 4, 8)},
    ),
)
