"""Something to try next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vtune.domain.effects import Scalar


@dataclass(frozen=True, slots=True)
class Advice:
    text: str
    # The settings of the trial that it asks for; empty where it asks for none.
    asks: Mapping[str, Scalar] = field(default_factory=dict)
