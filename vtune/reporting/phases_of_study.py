"""phases.json: how far along a plan of phases a study is, as plain data. Written after every trial and read by every
report; the trials themselves stand in the journal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Limits
from vtune.domain.phases import AskedPhases, Missed, Option, OptionOutcome, Phase, PhaseOutcome, PhaseRung, Walk
from vtune.domain.prediction import Prediction
from vtune.domain.repeated import Repeats
from vtune.files import write_atomically
from vtune.foreign.read import read_json
from vtune.journal.files import to_json
from vtune.journal.sound import is_sound

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasesOfStudy:
    """Trials by their numbers. Of the plan's phases only what a reader wants to know of them."""

    plan: str
    about: str = ""
    # Phases that were asked for, and those that the plan has.
    up_to: int
    of: int
    stage: str
    # Why it could not go on.
    stopped: str | None = None
    baseline: int | None = None
    best: int | None = None
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    phases: tuple[PhaseOutcome, ...] = ()
    options: tuple[OptionOutcome, ...] = ()
    missed: Missed | None = None
    trials: tuple[int, ...] = ()
    # Trials of the journal that ran another command, config or code, and count for nothing.
    left_out: tuple[int, ...] = ()
    # Launches still to come.
    left: tuple[int, int] = (0, 0)
    left_to_fit: int = 0
    left_again: int = 0
    # The limits that it was walked under, as typed.
    ram_limit: str | None = None
    vram_limit: str | None = None


def phases_of(
    walk: Walk,
    asked: AskedPhases,
    *,
    limits: Limits | None = None,
    missed: Missed | None = None,
    left_out: frozenset[int] = frozenset(),
) -> PhasesOfStudy:
    limits = limits or Limits()
    return PhasesOfStudy(
        plan=asked.plan.name,
        about=asked.plan.about,
        up_to=len(asked.phases),
        of=len(asked.plan.phases),
        stage=walk.stage,
        stopped=walk.stopped,
        baseline=walk.baseline.trial if walk.baseline is not None else None,
        best=walk.best.trial if walk.best is not None else None,
        settings=walk.settings,
        phases=walk.phases,
        options=walk.options,
        missed=missed,
        trials=walk.trials,
        left_out=tuple(sorted(left_out)),
        left=walk.left,
        left_to_fit=walk.left_to_fit,
        left_again=walk.left_again,
        ram_limit=limits.ram.text if limits.ram is not None else None,
        vram_limit=limits.vram.text if limits.vram is not None else None,
    )


def write_phases(path: Path, phases: PhasesOfStudy) -> None:
    write_atomically(path, json.dumps({"schema": SCHEMA, **phases_to_json(phases)}, indent=1, allow_nan=False) + "\n")


def read_phases(path: Path) -> PhasesOfStudy | None:
    """None where there are none, or a newer vtune wrote them."""
    try:
        item = to_json(read_json(path))
        if item["schema"] != SCHEMA:
            return None
        found = _phases(item)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return found if is_sound(found, PhasesOfStudy) else None


def phases_to_json(phases: PhasesOfStudy) -> dict[str, Any]:
    plain: dict[str, Any] = to_json(
        {
            "plan": {"name": phases.plan, "about": phases.about, "up_to": phases.up_to, "of": phases.of},
            "stage": phases.stage,
            "stopped": phases.stopped,
            "walked": {
                "baseline": phases.baseline,
                "best": phases.best,
                "settings": phases.settings,
                "trials": phases.trials,
                "left_out": phases.left_out,
                "limits": {"ram": phases.ram_limit, "vram": phases.vram_limit},
            },
            "left": {
                "least": phases.left[0],
                "most": phases.left[1],
                "to_fit": phases.left_to_fit,
                "again": phases.left_again,
            },
            "phases": [_outcome_to_json(one) for one in phases.phases],
            "options": [
                {
                    "option": one.option.name,
                    "settings": one.settings,
                    "predicted": one.predicted,
                    "trial": one.trial,
                    "why": one.why,
                    "repeats": one.repeats,
                    "batch": one.batch,
                }
                for one in phases.options
            ],
            "missed": phases.missed,
        }
    )
    return plain


def _outcome_to_json(outcome: PhaseOutcome) -> dict[str, Any]:
    phase = outcome.phase
    return {
        "phase": phase.number,
        "name": phase.name,
        "knob": phase.knob,
        "kept": outcome.kept,
        "rejected": [rung.turned for rung in outcome.rungs if rung.state == "rejected"],
        "why": outcome.why,
        "done": outcome.done,
        "risk": phase.risk,
        "risk_words": phase.risk_words,
        "by_hand": phase.by_hand,
        "rungs": outcome.rungs,
    }


def _phases(item: Mapping[str, Any]) -> PhasesOfStudy:
    plan, walked, left = item["plan"], item["walked"], item["left"]
    return PhasesOfStudy(
        plan=plan["name"],
        about=plan["about"],
        up_to=plan["up_to"],
        of=plan["of"],
        stage=item["stage"],
        stopped=item["stopped"],
        baseline=walked["baseline"],
        best=walked["best"],
        settings=walked["settings"],
        phases=tuple(_outcome(one) for one in item["phases"]),
        options=tuple(
            OptionOutcome(
                option=Option(name=one["option"], settings=one["settings"]),
                settings=one["settings"],
                predicted=_prediction(one["predicted"]),
                trial=one["trial"],
                why=one["why"],
                repeats=_repeats(one.get("repeats")),
                batch=tuple(one["batch"]) if one.get("batch") else None,
            )
            for one in item["options"]
        ),
        missed=_missed(item["missed"]),
        trials=tuple(walked["trials"]),
        left_out=tuple(walked["left_out"]),
        left=(left["least"], left["most"]),
        left_to_fit=left.get("to_fit", 0),
        left_again=left.get("again", 0),
        ram_limit=walked["limits"]["ram"],
        vram_limit=walked["limits"]["vram"],
    )


def _outcome(item: Mapping[str, Any]) -> PhaseOutcome:
    return PhaseOutcome(
        phase=Phase(
            number=item["phase"],
            name=item["name"],
            knob=item["knob"],
            risk=item["risk"],
            risk_words=item["risk_words"],
            by_hand=tuple(item["by_hand"]),
        ),
        rungs=tuple(
            PhaseRung(
                **{
                    **one,
                    "predicted": _prediction(one["predicted"]),
                    "not_judged": tuple(one["not_judged"]),
                    "repeats": _repeats(one.get("repeats")),
                }
            )
            for one in item["rungs"]
        ),
        kept=item["kept"],
        why=item["why"],
        done=item["done"],
    )


def _repeats(item: str | None) -> Repeats | None:
    return None if item is None else Repeats(item)


def _missed(item: Mapping[str, Any] | None) -> Missed | None:
    if item is None:
        return None
    predicted = _prediction(item["predicted"])
    return None if predicted is None else Missed(**{**item, "predicted": predicted})


def _prediction(item: Mapping[str, Any] | None) -> Prediction | None:
    if item is None:
        return None
    pairs = {name: tuple(item[name]) if item.get(name) else None for name in ("ram_ci95", "vram_ci95")}
    rates = tuple(item["samples_per_s_ci95"])
    return Prediction(**{**item, **pairs, "samples_per_s_ci95": rates, "notes": tuple(item.get("notes") or ())})
