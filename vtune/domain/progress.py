"""What the loop tells whoever watches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vtune.domain.others import OthersOnCores
from vtune.domain.phases import Walk
from vtune.domain.record import Measurement, TrialRecord
from vtune.domain.search import Hunt, Space
from vtune.domain.trial import TrialSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted:
    spec: TrialSpec
    scout: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialProgress:
    """Sent a few times a second. `provisional` comes after 5 steps and is replaced as steps arrive."""

    spec: TrialSpec
    phase: Literal["starting", "loading", "stepping", "ending"]
    steps: int
    steps_wanted: int
    seconds: float
    provisional: Measurement | None = None
    ram_bytes: int | None = None
    # Batch sizes begun, while the training is fed from memory to find its ceiling.
    sizes_tried: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFinished:
    record: TrialRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkMoved:
    """Before each trial of a plan of phases, and once more when it is over."""

    walk: Walk
    # Of the study, in the order in which they were run.
    records: tuple[TrialRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HuntMoved:
    """The same of a search."""

    hunt: Hunt
    space: Space
    records: tuple[TrialRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnprovenLeft:
    """Unfinished trials of this boot that nothing proves to be this account's: whatever they left running stays."""

    trials: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFromInside:
    """The machine allows no overlay: before the first trial, since some writes escape the second layer."""

    folders: tuple[str, ...]
    # Why the first of them cannot be covered.
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesPutBack:
    """A trial whose vtune was killed had left the user's files changed, and its sweep has put them back."""

    # Its folder.
    trial: str
    put_back: int
    # New ones, moved into the trial's folder.
    moved: int
    # Path and reason.
    not_put_back: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingForQuiet:
    """Others hold the cores that the next trial would use. Sent at each look, until they leave or time is up."""

    others: OthersOnCores
    left_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialDisturbed:
    """Others came while it ran: it is launched again."""

    trial: int
    others: OthersOnCores


# Told in a line of its own.
Notice = UnprovenLeft | KeptFromInside | FilesPutBack | WaitingForQuiet | TrialDisturbed
TuningEvent = Notice | TrialStarted | TrialProgress | TrialFinished | WalkMoved | HuntMoved
