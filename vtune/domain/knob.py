"""One thing that may be turned, and what turning it does to the mathematics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Numerics

LoaderOption = Literal["num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "in_order", "batch_size"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    name: str
    kind: Literal["int", "bool"]
    minimum: int | None = None
    maximum: int | None = None
    numerics: Numerics
    # Why it is in that class, in one line for `vtune knobs`.
    numerics_reason: str
    # How the hook turns it when no config key does; None when only the training's config can.
    loader_option: LoaderOption | None = None
    # Where trainings usually keep it, the surest name first.
    config_keys: tuple[str, ...] = ()
    # What commands call it beyond the last words of those keys; one letter is a short flag.
    flags: tuple[str, ...] = ()
    # A config may say null and mean torch's default.
    nullable: bool = False
    doc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainLoader:
    """The loader that feeds the steps, as a scout run without overrides has learnt it."""

    key: str
    # file:line of its making.
    where: str
    # What it runs with when nothing is turned, in the knobs' names.
    settings: Mapping[str, Scalar] = field(default_factory=dict)
