"""Which trial to run with, and why each other one is not it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vtune.domain.compared import RankedBy as RankedBy
from vtune.domain.record import TrialRecord

LostFor = Literal[
    "failed",
    "no_rate",
    # Fed from memory: a search for what the training could reach.
    "ceiling",
    # Others held the cores that it would have used.
    "busy_machine",
    "not_lasting",
    "too_short",
    # Ended early, for another was surely faster.
    "beaten",
    "over_limit",
    # Of the device's memory, limit or not: its allocator lives on what it gives back.
    "out_of_room",
    "repeated",
    # A launch of the whole training.
    "full_run",
    "other_cache",
    # Another command or config than the phases walked with.
    "other_training",
    "tie",
    "slower",
    "baseline",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One rate over another. No interval where one of the two has none: then nothing is shown."""

    value: float
    ci95: tuple[float, float] | None = None

    @property
    def shown_faster(self) -> bool:
        return self.ci95 is not None and self.ci95[0] > 1

    def shown_faster_by(self, delta: float) -> bool:
        """The rule of every step that is kept, every race and every choice of another training: the interval shows a
        difference, and its middle is beyond `delta`, a logarithm, which counts as equal."""
        return self.shown_faster and math.log(self.value) > delta

    @property
    def shown_slower(self) -> bool:
        return self.ci95 is not None and self.ci95[1] < 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """What a trial took of one kind of memory, and the limit that does not allow it."""

    memory: Literal["RAM", "VRAM"]
    needs_bytes: int
    limit_bytes: int
    # Not seen in the trial: what the planned run would come to, and when it passes the limit, in words.
    projected: bool = False
    when: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    trial: int
    reason: LostFor
    # One sentence with the numbers.
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`best` is the baseline itself unless another trial is shown to be faster by more than nothing."""

    best: TrialRecord | None = None
    baseline: TrialRecord | None = None
    # The best of those that train as the baseline does: the best itself, unless another training is shown to be faster.
    best_same: TrialRecord | None = None
    # Over it: each measured trial of another training, and each step that a walk took back.
    over_same: Mapping[int, Ratio] = field(default_factory=dict)
    # Of the best over it, by how many rounds of a race, if by any.
    over_same_rounds: int | None = None
    # Trials of another training than the baseline's.
    other_trainings: frozenset[int] = frozenset()
    # False where no trial with the user's own settings completed and another one stands in for comparison.
    baseline_is_own: bool = False
    ranked_by: RankedBy | None = None
    speedup: Ratio | None = None
    # Of the best and the baseline, where they differ: what was launched only once, unless the gap is beyond doubt.
    unconfirmed: tuple[int, ...] = ()
    # Of the two, what rests on too few steps for more than a guess.
    provisional: tuple[int, ...] = ()
    # Trials that cannot be told from the best.
    tie: tuple[int, ...] = ()
    lost: tuple[Lost, ...] = ()
    # Each measured trial against the baseline.
    ratios: Mapping[int, Ratio] = field(default_factory=dict)
    # Of those that are from a race, by how many of its rounds.
    paired_rounds: Mapping[int, int] = field(default_factory=dict)
    over: Mapping[int, tuple[Excess, ...]] = field(default_factory=dict)
    # Trials that a device has no room for, although they ran.
    cramped: tuple[int, ...] = ()
    # Of the remarks, what other programs on the machine did to the rates: it is a part of every comparison.
    neighbours: tuple[str, ...] = ()
    # What the reader must know of the comparison as a whole.
    remarks: tuple[str, ...] = ()
