"""A promise that the full run itself has renewed, and why: docs/decisions/0021."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vtune.domain.effects import Scalar
from vtune.domain.steady import CacheFills, FromStorage, PartOfEpoch, Side, Trend

# A stop is a pause that is neither a checkpoint nor a validation.
RarePauseKind = Literal["checkpoint", "validation", "stop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RarePause:
    """A pause that comes so seldom that the trial has not seen it, or not its interval."""

    what: RarePauseKind
    seconds: float
    seen: int
    # None where it comes at the end of each epoch.
    every_steps: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherPace:
    """Steps take this share longer than in the trial, from the beginning; `side` says which part of them."""

    side: Side
    change: float
    # The device's clocks were held down.
    clocks: bool = False


RenewedBecause = RarePause | OtherPace | Trend | FromStorage | PartOfEpoch | CacheFills


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """Stored as an event of its launch, at once."""

    trial: int
    after_steps: int
    because: RenewedBecause
    # Promised before, and from then on. Both include the rare pauses that were known at that time.
    samples_per_s_before: float
    samples_per_s: float
    # The steady rate as a launch counts it, with stops, without checkpoints and validations. None: it is as promised.
    steady_samples_per_s: float | None = None
    steady_samples_per_s_ci95: tuple[float, float] | None = None
    launch: int = 0
    # The settings that the launch turned.
    settings: Mapping[str, Scalar] = field(default_factory=dict)
