"""Data that a training reads more than once because several loader workers make the same."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Repeats(StrEnum):
    # Workers draw the same random numbers from copies of one generator.
    SAME_NUMBERS = "same_numbers"
    # Each worker reads all of an iterable data set.
    SAME_SAMPLES = "same_samples"
    # The next record comes from the data set's own state, of which each worker has a copy, and not from the index.
    NEXT_RECORD = "next_record"
    # Nobody could see what was read, and nothing says that the data set splits itself.
    NOT_SHOWN = "not_shown"


class Hidden(StrEnum):
    """Why nobody could see which samples the workers read."""

    AUGMENTED = "augmented"
    # One sample over and over, or a few of them in turn.
    ALL_EQUAL = "all_equal"
    FEW_DIFFERENT = "few_different"
    # Fewer than two workers came to a batch.
    FEW_GAVE = "few_gave"


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksRepeat:
    """Ranks of a distributed training that read the same data: none of it is shared out between them."""

    ranks: int
    dataset: str
    # The line to mend, `file:line`.
    where: str | None = None
    # Of a data set by index: its length, and each rank goes over all of it. None: an iterable one, of which each rank
    # reads the same samples in the same order.
    items: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    reason: Repeats
    # Of the loader's workers, those that were seen to make the same.
    workers: int
    dataset: str
    # The line to mend, `file:line`.
    where: str | None = None
    # The generator that they share, as its data set or the process names it.
    generator: str | None = None
    # Batches of each that were compared.
    batches: int = 0
    # Where nothing was shown; None in trials of an older vtune.
    hidden: Hidden | None = None
    # Seen in another trial of the study, where this one ended before it could show it.
    trial: int | None = None

    @property
    def is_shown(self) -> bool:
        return self.reason is not Repeats.NOT_SHOWN
