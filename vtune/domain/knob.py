"""One thing that may be turned, and what turning it does to the mathematics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vtune.domain.experiment import Numerics

LoaderOption = Literal["num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "batch_size"]


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
    # A config may say null and mean torch's default.
    nullable: bool = False
    doc: str
