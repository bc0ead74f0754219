"""What a full run counts instead of recording: how many of each kind, how long it waited, and when it was last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CountedKind = Literal["delivered", "backward", "step", "saved", "pass"]
# The source of a save that nobody feels: a checkpoint all the same.
BRIEF = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Of one source in one process, since its start."""

    kind: CountedKind
    # Number of the loader or the optimizer, as its facts name it; None where several too many are counted together.
    source: int | None
    main_thread: bool
    # A loader that was asked inside another one's `next()`.
    nested: bool
    # Batches that came with gradients on: mostly the training's.
    grad: bool
    count: int
    # As the sampler counts them, else by their leading dimension; 0 where neither tells.
    samples: int
    # Inside of `next()`, of the backwards, of `torch.save`, of making an iterator; 0 for steps: only their end is seen.
    waited_s: float
    last_s: float
    longest_gap_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessCounts:
    pid: int
    # On the machine's monotonic clock, as all times here. Written at most once a second, when there is news: a process
    # that is killed takes the last second with it.
    written_s: float
    counted: tuple[Counted, ...]

    def of(self, kind: CountedKind) -> tuple[Counted, ...]:
        return tuple(one for one in self.counted if one.kind == kind)
