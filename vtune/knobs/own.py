"""A knob that vtune does not know: all that is known of it is what the user says in `vtune.knobs`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from vtune.domain.effects import Scalar
from vtune.domain.experiment import KnobBinding
from vtune.domain.knob import Knob
from vtune.knobs.arguments import plain_name

# As many digits as may be typed.
LARGEST = 10**40
# A path at most: commands that a report gives to be pasted have it whole.
LONGEST_WORD = 400
Kind = Literal["int", "float", "bool", "text"]


def own_knob(binding: KnobBinding) -> Knob:
    name = plain_name((binding.flag or "").lstrip("-+"))
    # With its section it is that word alone; without one, any section that is the training's.
    sectioned = "." in name
    place = binding.flag or ".".join(binding.key or ())
    return Knob(
        name=binding.name,
        kind=kind_of(binding.values) or "text",
        numerics=binding.numerics or "DIFFERENT",
        numerics_reason="as vtune.knobs says" if binding.numerics else "what it changes, only the training knows",
        config_keys=(name,) if sectioned else (),
        flags=(name,) if name and not sectioned else (),
        common_words=frozenset((name.rpartition(".")[2],)) if sectioned else frozenset(),
        checked=False,
        doc=f"a knob of your own: {place}",
    )


def kind_of(values: Iterable[object]) -> Kind | None:
    """None where they are of no type that a knob can have, or of several."""
    kinds = {_kind(value) for value in values}
    if kinds == {"int", "float"}:
        return "float"
    return next(iter(kinds)) if len(kinds) == 1 else None


def as_number(value: object) -> Scalar:
    """The number that it is, as one with a fraction: 1 and 1.0 are one value. None where it is none."""
    return float(value) if isinstance(value, int | float) and _kind(value) in ("int", "float") else None


def _kind(value: object) -> Kind | None:
    match value:
        case bool():
            return "bool"
        case int() if abs(value) < LARGEST:
            return "int"
        case float() if math.isfinite(value):
            return "float"
        case str() if value.strip() and value.isprintable() and len(value) <= LONGEST_WORD:
            return "text"
    return None
