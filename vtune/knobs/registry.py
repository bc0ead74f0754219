"""All knobs, in the order in which they are shown."""

from __future__ import annotations

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
from vtune.knobs.spelling import nearest

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


def knob_named(name: str) -> Knob:
    for knob in KNOBS:
        if knob.name == name:
            return knob
    meant = _meant(name)
    raise UsageError(
        f'unknown knob "{name}"' + (f'; did you mean "{meant}"?' if meant else ""),
        hint=f"known knobs: {', '.join(KNOB_NAMES)}",
    )


def _meant(name: str) -> str | None:
    """Other names that trainings give to a knob (num_workers) point to it too."""
    owners = {knob.name: knob.name for knob in KNOBS}
    for knob in KNOBS:
        for key in knob.config_keys:
            owners.setdefault(key.rpartition(".")[2], knob.name)
    found = nearest(name, owners)
    return None if found is None else owners[found]
