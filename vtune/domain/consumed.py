"""The samples that a training's optimizer used, step by step, and why they make no one number where they make none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# So many times the samples that steps used were delivered, where steps leave every second batch out or more.
LEFT_OUT = 1.5


class NoBatch(StrEnum):
    """Why a training has no exact effective batch."""

    VARIES = "varies"
    ROWS_UNKNOWN = "rows_unknown"
    SEVERAL_STEPS = "several_steps"
    RANKS_APART = "ranks_apart"
    RANKS_UNSEEN = "ranks_unseen"
    FEW_STEPS = "few_steps"
    SEVERAL_LOADERS = "several_loaders"
    JOINED_OR_SKIPPED = "joined_or_skipped"


NO_BATCH_WORDS = {
    NoBatch.VARIES: "the optimizer's steps used different numbers of samples",
    NoBatch.ROWS_UNKNOWN: "the batches have fewer rows than samples were asked for",
    NoBatch.SEVERAL_STEPS: "several optimizer steps share one batch",
    NoBatch.RANKS_APART: "the training's processes do not step together",
    NoBatch.RANKS_UNSEEN: "some of the training's processes were not seen",
    NoBatch.FEW_STEPS: "too few optimizer steps were seen",
    NoBatch.SEVERAL_LOADERS: "several loaders feed each step, and whether it uses all of their samples cannot be seen",
    NoBatch.JOINED_OR_SKIPPED: "each step gets several batches and one backward, and some batches may be left out",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumed:
    """Samples of one optimizer step, over all ranks."""

    # (samples, steps that used as many), by samples; many different sizes are put together.
    by_step: tuple[tuple[float, int], ...]
    # For arithmetic on rates: no effective batch.
    mean: float
    no_batch: NoBatch | None = None
    # Rows of one delivered batch that is not the last of its pass, where all have as many.
    rows: int | None = None
    # Bytes of such a batch, where all have as many.
    batch_bytes: int | None = None

    @property
    def leaves_out(self) -> bool:
        """Whole batches that were delivered: rates count them."""
        steps = sum(count for _, count in self.by_step)
        return bool(steps) and self.mean * steps > LEFT_OUT * sum(size * count for size, count in self.by_step)
