"""The ground of a rate, and the doubts that keep it from being called steady."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, get_args

# A window of the whole claim: in so many steps what comes by chance once in 150 is missed once in 400 windows …
GROUND_STEPS = 900
# … and in so many seconds a machine that slows by a tenth in a minute shows it.
GROUND_S = 30.0

# Whose times a doubt is about: the training's own part of a step, or the loader's batches.
Side = Literal["training", "loader"]


class Order(StrEnum):
    """In which the training's samples come."""

    SHUFFLED = "shuffled"
    FILE_ORDER = "file_order"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """All that a rate was seen of."""

    steps: int
    seconds: float
    # None where no loader feeds the steps.
    order: Order | None = None
    # Of one epoch, read by the end of the window; None where its length is not known.
    epoch_fraction: float | None = None
    # No epoch had ended before the window did.
    first_epoch_only: bool = True
    # An event that comes more seldom than once in so many steps may be missing (95 %).
    rarest_steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoLoader:
    """No loader was seen to feed the steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FewSteps:
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FewBatches:
    batches: int
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WideInterval:
    """None: there is no interval."""

    half_width: float | None
    of: Literal["batches", "steps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradicted:
    """The window's own rate and that of the replay lie too far apart."""

    replayed: float
    seen: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """The loader's queue shrank by so many batches."""

    batches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderUnseen:
    """Its batches pass through a thread, or its workers could not be seen."""

    behind: Literal["thread", "workers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Times changed by this share from the window's beginning to its end."""

    side: Side
    change: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendUnseen:
    """Times spread so widely that a change by this share would not have been seen."""

    side: Side
    change: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spells:
    """Times resemble each other over so many steps that the window holds too few of such spells."""

    side: Side
    lasts_steps: float
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFills:
    """The data set keeps what it has read, so a later epoch costs something else."""

    # The attribute whose entries grow with the samples; None where the memory of its processes tells it.
    attribute: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortWindow:
    """Calm, for too short a time to tell."""

    steps: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOfEpoch:
    """Not in random order, and only this part of an epoch was read."""

    order: Order
    fraction: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FromStorage:
    """The rate hangs on data that is waited for: a storage that is fast at first looks like one that stays fast."""

    waiting: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NotComeYet:
    """Known to come, and not seen."""

    what: Literal["checkpoint", "validation"]
    every_steps: int


# Something in the window speaks against the rate …
InWindow = (
    NoLoader
    | FewSteps
    | FewBatches
    | WideInterval
    | Contradicted
    | Drained
    | LoaderUnseen
    | Trend
    | TrendUnseen
    | Spells
    | CacheFills
)
# … or nothing does, and the window cannot know.
BeyondWindow = ShortWindow | PartOfEpoch | FromStorage | NotComeYet
Doubt = InWindow | BeyondWindow
DOUBTS: tuple[type[Doubt], ...] = get_args(Doubt)


def only_unseen(doubts: tuple[Doubt, ...]) -> bool:
    """The window itself was calm."""
    return bool(doubts) and all(isinstance(doubt, BeyondWindow) for doubt in doubts)
