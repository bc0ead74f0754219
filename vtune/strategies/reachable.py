"""All that phases could have come to, had they turned their knobs together: what a model is asked, to see what they
missed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.machine import Machine
from vtune.domain.phases import Phase
from vtune.knobs.registry import knob_named
from vtune.knobs.settings import NEED_WORKERS
from vtune.knobs.values import values_of
from vtune.strategies.walk_candidates import why_not

# What the model has a law for. Others (precision, filters) make another training, of which it knows nothing.
TOGETHER = ("workers", "batch_size", "prefetch_factor", "persistent_workers", "pin_memory", "in_order")
# Of one knob, so that all of them together stay a thousand or two.
MOST_VALUES = 10


def reachable(
    phases: Sequence[Phase],
    *,
    own: Mapping[str, Scalar],
    won: Mapping[str, Scalar],
    experiment: Experiment,
    machine: Machine,
) -> list[Mapping[str, Scalar]]:
    """Settings as they would be asked for, each once. Only knobs that the phases turn and that may be turned here.
    `own` is what the user's configuration runs with, `won` what the phases ask for in the end."""
    turned = {name for phase in phases for rung in (*phase.rungs, *phase.beyond) for name in rung}
    turned |= {phase.knob for phase in phases if phase.by_model}
    values = {
        name: _values(name, own, experiment, machine, needs_allow=_needs_allow(name, phases))
        for name in TOGETHER
        if name in turned
    }
    values = {name: found for name, found in values.items() if found}
    rest = {name: value for name, value in won.items() if name not in values}
    found: dict[tuple[tuple[str, Scalar], ...], Mapping[str, Scalar]] = {}
    for combined in itertools.product(*values.values()):
        asked = {**rest, **dict(zip(values, combined, strict=True))}
        if asked.get("workers", own.get("workers")) == 0:
            asked = {name: value for name, value in asked.items() if name not in NEED_WORKERS}
        asked = {name: value for name, value in asked.items() if name in experiment.settings or own.get(name) != value}
        found.setdefault(tuple(sorted(asked.items())), asked)
    return list(found.values())


def _values(
    name: str, own: Mapping[str, Scalar], experiment: Experiment, machine: Machine, *, needs_allow: bool
) -> tuple[Scalar, ...]:
    every = values_of(knob_named(name, experiment.knobs), machine, experiment, now=own)
    may = [
        value
        for value in every
        if own.get(name) == value or why_not({name: value}, own, experiment, needs_allow=needs_allow) is None
    ]
    return tuple(may if len(may) > 1 else ())[:MOST_VALUES]


def _needs_allow(name: str, phases: Sequence[Phase]) -> bool:
    """One phase of the plan that turns it unasked is the user's word for it."""
    turning = [p for p in phases if (p.by_model and p.knob == name) or any(name in rung for rung in p.rungs)]
    return bool(turning) and all(phase.needs_allow for phase in turning)
