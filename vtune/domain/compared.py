"""By which number trials are compared, and what a trial has to come to where another is known already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# The whole run, where it is known how many epochs it has; an epoch with its restart, where it is known how long one is.
RankedBy = Literal["samples_per_s_whole_run", "samples_per_s_epoch", "samples_per_s"]
Cache = Literal["cold", "warm", "mixed", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A trial that surely stays below this is ended early: it is slower, and how much slower nobody has to know."""

    # The leader, and what it came to.
    trial: int
    ranked_by: RankedBy
    samples_per_s: float
    # Another launch of it would come to no less (95 %).
    at_least: float
    # How it read its data: cold and warm are different questions.
    cache: Cache = "unknown"
