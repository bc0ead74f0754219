"""How far a full run has come, from the counters that its processes write over and over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vtune.domain.counts import Counted, ProcessCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    # When it was looked at, on the machine's monotonic clock, as all times here.
    t_s: float
    steps: int = 0
    last_step_s: float | None = None
    # The last sign of any kind: a batch, a backward, a step, a checkpoint.
    last_sign_s: float | None = None
    longest_gap_s: float = 0.0
    # Batches without gradients, checkpoints, and new passes of the training's loader: a rate between two looks must not
    # span them.
    aside: int = 0
    saves: int = 0
    last_save_s: float | None = None


def progress_of(counts: Sequence[ProcessCounts], t_s: float, *, restarts_in_rate: bool = False) -> Progress:
    """Ranks step together, so the process that stepped most tells for all; of several optimizers likewise the one.
    `restarts_in_rate`: the rate that it is compared with is that of whole epochs."""
    stepping = max(counts, key=lambda one: _most_steps(one).count if one.of("step") else 0, default=None)
    if stepping is None:
        return Progress(t_s=t_s)
    step = _most_steps(stepping) if stepping.of("step") else None
    saved = [one for process in counts for one in process.of("saved")]
    validated = [one for process in counts for one in process.of("delivered") if not one.grad]
    saves = sum(one.count for one in saved)
    passes = 0 if restarts_in_rate else _passes(stepping)
    return Progress(
        t_s=t_s,
        steps=step.count if step is not None else 0,
        last_step_s=step.last_s if step is not None else None,
        last_sign_s=max(
            (one.last_s for process in counts for one in process.counted if one.kind != "pass"), default=None
        ),
        longest_gap_s=step.longest_gap_s if step is not None else 0.0,
        aside=passes + saves + sum(one.count for one in validated),
        saves=saves,
        last_save_s=max((one.last_s for one in saved), default=None),
    )


def _most_steps(process: ProcessCounts) -> Counted:
    return max(process.of("step"), key=lambda one: one.count)


def _passes(process: ProcessCounts) -> int:
    """Of the loader that feeds the steps, as a trial takes its epochs; one that is begun anew for each step is aside of
    nothing."""
    feeding = max((one for one in process.of("delivered") if one.grad), key=lambda one: one.count, default=None)
    return sum(one.count for one in process.of("pass") if feeding is not None and one.source == feeding.source)


def saved_at_step(seen: Sequence[Progress], last_save_s: float | None) -> int | None:
    """The steps that were surely done when the last checkpoint was: of the looks, the last one before it."""
    if last_save_s is None:
        return None
    return max((one.steps for one in seen if one.last_step_s is not None and one.last_step_s <= last_save_s), default=0)
