"""Did a setting take effect that is no option of the loader? Only what the process was seen to do can tell."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from vtune.analysis.roles import Roles
from vtune.analysis.verify import LOADER_KNOBS
from vtune.domain.effects import Scalar
from vtune.domain.events import Fact

KNOBS = (
    "accumulate_steps", "precision", "compile", "gradient_checkpointing", "channels_last", "threads", "filters",
    "patch_size", "surface_distance_interval", "deep_supervision",
)  # fmt: skip
TYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
# The last steps before the end may have had no time for all of their batches.
LEAST_STEPS = 5


@dataclass(frozen=True, slots=True)
class _Seen:
    # None: nobody can see it.
    as_asked: bool | None = None
    ran_with: str = ""


def contradiction(asked: Mapping[str, Scalar], roles: Roles, facts: Sequence[Fact], backwards: int) -> str | None:
    """One sentence with both values, or None. `backwards` are those of all ranks."""
    for name in KNOBS:
        seen = _seen(name, asked[name], roles, facts, backwards) if name in asked else _Seen()
        if seen.as_asked is False:
            return f"asked for {name}={_text(asked[name])}, the training ran with {seen.ran_with}"
    return None


def unverified(
    asked: Mapping[str, Scalar], roles: Roles | None, facts: Sequence[Fact], backwards: int
) -> tuple[str, ...]:
    """Settings of which nobody saw whether they took effect."""
    return tuple(
        f"{name}={_text(asked[name])}"
        for name in (*KNOBS, *(name for name in asked if name not in (*KNOBS, *LOADER_KNOBS)))
        if name in asked and (roles is None or _seen(name, asked[name], roles, facts, backwards).as_asked is None)
    )


def _seen(name: str, wanted: Scalar, roles: Roles, facts: Sequence[Fact], backwards: int) -> _Seen:
    told = [fact.data for fact in facts if fact.name == "precision" and fact.pid == roles.pid]
    last: Mapping[str, Any] = told[-1] if told else {}
    match name:
        case "accumulate_steps":
            return _accumulated(wanted, roles, backwards)
        case "precision":
            return _computed_in(wanted, last)
        case "threads" if isinstance(threads := last.get("threads"), int):
            return _Seen(threads == wanted, f"{threads} threads")
        case "compile" if isinstance(compiled := last.get("compiled"), bool):
            # Something else of the training may be compiled: that it is refutes nothing.
            return _Seen(True if compiled == wanted else False if wanted else None, "nothing compiled")
        case "patch_size":
            shapes = [fact.data.get("shape") or () for fact in facts if fact.name == "shape" and fact.pid == roles.pid]
            # Batches may hold more than one patch's edges: another size refutes nothing.
            return _Seen(True if any(max(shape[2:], default=0) == wanted for shape in shapes) else None)
    return _Seen()


def _accumulated(wanted: Scalar, roles: Roles, backwards: int) -> _Seen:
    """By batches or by backward passes between two optimizer steps; one batch may be split into several passes, and
    one pass may take several batches. Steps that a gradient scaler leaves out are steps."""
    ends = [step.ended_s for step in roles.steps]
    if len(ends) <= LEAST_STEPS or not roles.batches:
        return _Seen()
    at = Counter(bisect_right(ends, batch.returned_s) for batch in roles.fed)
    batches = median(at[number] for number in range(1, len(ends)))
    passes = round(backwards / (len(ends) * max(1, len(roles.ranks))))
    if wanted in (batches, passes):
        return _Seen(as_asked=True)
    if not backwards or batches != int(batches) or batches < 1:
        return _Seen()
    return _Seen(False, f"{batches:.0f} {'batch' if batches == 1 else 'batches'} by optimizer step")


def _computed_in(wanted: Scalar, told: Mapping[str, Any]) -> _Seen:
    autocast, weights = told.get("autocast"), told.get("parameters")
    if not isinstance(autocast, bool) or not isinstance(weights, str):
        return _Seen()
    if not autocast or weights != "float32":
        return _Seen(weights == TYPES.get(str(wanted)), f"weights in {weights} and no autocast to another type")
    kind = told.get("autocast_dtype")
    return _Seen(kind == TYPES.get(str(wanted)), f"autocast to {kind}") if isinstance(kind, str) else _Seen()


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
