"""All knobs, in the order in which they are shown: vtune's, then the user's own."""

from __future__ import annotations

from collections.abc import Sequence

from vtune.domain.experiment import KnobBinding
from vtune.domain.knob import Knob
from vtune.errors import UsageError
from vtune.knobs.batch import ACCUMULATE_STEPS, BATCH_SIZE
from vtune.knobs.loader import IN_ORDER, PERSISTENT_WORKERS, PIN_MEMORY, PREFETCH_FACTOR, WORKERS
from vtune.knobs.mathematics import (
    CHANNELS_LAST,
    COMPILE,
    DEEP_SUPERVISION,
    FILTERS,
    GRADIENT_CHECKPOINTING,
    PATCH_SIZE,
    PRECISION,
    SURFACE_DISTANCE_INTERVAL,
    THREADS,
)
from vtune.knobs.own import own_knob
from vtune.knobs.spelling import LIKENESS, nearest

KNOBS: tuple[Knob, ...] = (
    WORKERS,
    PREFETCH_FACTOR,
    PERSISTENT_WORKERS,
    PIN_MEMORY,
    IN_ORDER,
    BATCH_SIZE,
    ACCUMULATE_STEPS,
    PRECISION,
    COMPILE,
    GRADIENT_CHECKPOINTING,
    CHANNELS_LAST,
    THREADS,
    FILTERS,
    PATCH_SIZE,
    SURFACE_DISTANCE_INTERVAL,
    DEEP_SUPERVISION,
)
KNOB_NAMES: tuple[str, ...] = tuple(knob.name for knob in KNOBS)

# A name that is so much like one of vtune's (of 1) is a misspelling, whatever is said of it: wokers, batchsize.
SURELY_MEANT = 0.85


def knobs_of(bindings: Sequence[KnobBinding]) -> tuple[Knob, ...]:
    return (*KNOBS, *(own_knob(binding) for binding in bindings if binding.name not in KNOB_NAMES))


def same_knobs(bindings: Sequence[KnobBinding]) -> frozenset[str]:
    """Knobs that leave the training as it is; of the user's own by the user's word."""
    return frozenset(knob.name for knob in knobs_of(bindings) if knob.numerics == "SAME")


def knob_named(name: str, bindings: Sequence[KnobBinding] = ()) -> Knob:
    """`bindings`: those of the experiment, in which knobs of the user's own are known."""
    for knob in KNOBS:
        if knob.name == name:
            return knob
    for binding in bindings:
        if binding.name == name:
            return own_knob(binding)
    knobs = knobs_of(bindings)
    meant = meant_by(name, knobs)
    raise UsageError(
        f'unknown knob "{name}"' + (f'; did you mean "{meant}"?' if meant else ""),
        hint=f"known knobs: {', '.join(knob.name for knob in knobs)}",
    )


def meant_by(name: str, knobs: Sequence[Knob] = KNOBS, *, likeness: float = LIKENESS) -> str | None:
    """Other names that trainings give to a knob (num_workers) point to it too."""
    owners = {knob.name: knob.name for knob in knobs}
    for knob in knobs:
        for key in knob.config_keys:
            owners.setdefault(key.rpartition(".")[2], knob.name)
    found = nearest(name, owners, likeness=likeness)
    return None if found is None else owners[found]
