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
    kind: Literal["int", "float", "bool", "text"]
    minimum: int | None = None
    maximum: int | None = None
    # What a relative value (half the patch) is rounded to.
    multiple: int = 1
    # Of a text: all that it can be, as vtune says it (nothing: anything), …
    words: tuple[str, ...] = ()
    # … and as families of trainings write these words, in the same order.
    spellings: tuple[tuple[Scalar, ...], ...] = ()
    # A config may list one for each axis or level: which of them the value is. The others follow in proportion.
    of_list: Literal["first", "longest"] | None = None
    numerics: Numerics
    # Why it is in that class, in one line for `vtune knobs`.
    numerics_reason: str
    # How the hook turns it when no config key does; None when only the training's config can.
    loader_option: LoaderOption | None = None
    # The variable of the environment that does it where neither a key nor a flag is there.
    env: str | None = None
    # Where trainings usually keep it, the surest name first.
    config_keys: tuple[str, ...] = ()
    # What commands call it beyond the last words of those keys; one letter is a short flag.
    flags: tuple[str, ...] = ()
    # Last words of those keys that mean something else in other places: they count in the listed places only.
    common_words: frozenset[str] = frozenset()
    # A config may say null and mean torch's default.
    nullable: bool = False
    # A value of the training's that it cannot take is a mistake. False: trainings have values of their own for it (0:
    # never, or a table by phase), and what vtune cannot read it leaves alone.
    checked: bool = True
    doc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainLoader:
    """The loader that feeds the steps, as a scout run without overrides has learnt it."""

    key: str
    # file:line of its making.
    where: str
    # What it runs with when nothing is turned, in the knobs' names.
    settings: Mapping[str, Scalar] = field(default_factory=dict)
