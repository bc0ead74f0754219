"""How far a full run has come, from the counters that its processes write over and over."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from vtune.domain.counts import BRIEF, Counted, ProcessCounts

# A hang is as long as the window says, and at least this many times the longest pause so far.
HANG_PAUSES = 10.0
# Much shorter than any hang, and longer than a pause that was not seen before mostly is.
WORTH_A_WORD_S, WORTH_A_WORD_PAUSES = 15.0, 2.0
KEPT_LOOKS = 60


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
    last_aside_s: float | None = None
    saves: int = 0
    last_save_s: float | None = None
    # The parts of `aside`: checkpoints that were felt, with the time in them, batches without gradients, new passes.
    felt_saves: int = 0
    save_s: float = 0.0
    validated: int = 0
    passes: int = 0
    # Spent waiting for batches of the loader that feeds the steps.
    waited_s: float = 0.0

    def hang_after_s(self, hang_time_s: float) -> float:
        return max(hang_time_s, HANG_PAUSES * self.longest_gap_s)

    def still_s(self, now_s: float, hang_time_s: float) -> float | None:
        """Since its last sign, where that is longer than its pauses have been: an old rate tells nothing of now."""
        if self.last_sign_s is None:
            return None
        quiet_s = now_s - self.last_sign_s
        worth_a_word_s = max(min(WORTH_A_WORD_S, hang_time_s / 4), WORTH_A_WORD_PAUSES * self.longest_gap_s)
        return quiet_s if quiet_s > worth_a_word_s else None


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
    felt = [one for one in saved if one.source != BRIEF]
    passes = [] if restarts_in_rate else _passes(stepping)
    asides = [*felt, *validated, *passes]
    feeding = _feeding(stepping)
    return Progress(
        t_s=t_s,
        steps=step.count if step is not None else 0,
        last_step_s=step.last_s if step is not None else None,
        last_sign_s=max(
            (one.last_s for process in counts for one in process.counted if one.kind != "pass"), default=None
        ),
        longest_gap_s=step.longest_gap_s if step is not None else 0.0,
        aside=sum(one.count for one in asides),
        last_aside_s=max((one.last_s for one in asides), default=None),
        saves=saves,
        last_save_s=max((one.last_s for one in saved), default=None),
        felt_saves=sum(one.count for one in felt),
        save_s=sum(one.waited_s for one in felt),
        validated=sum(one.count for one in validated),
        passes=sum(one.count for one in passes),
        waited_s=feeding.waited_s if feeding is not None else 0.0,
    )


def _most_steps(process: ProcessCounts) -> Counted:
    return max(process.of("step"), key=lambda one: one.count)


def _feeding(process: ProcessCounts) -> Counted | None:
    return max((one for one in process.of("delivered") if one.grad), key=lambda one: one.count, default=None)


def _passes(process: ProcessCounts) -> list[Counted]:
    """Of the loader that feeds the steps, as a trial takes its epochs; one that is begun anew for each step is aside of
    nothing."""
    feeding = _feeding(process)
    return [one for one in process.of("pass") if feeding is not None and one.source == feeding.source]


class Checkpoints:
    """What was done at the last checkpoint. Fed with each look; remembers a few of them, for runs of days."""

    def __init__(self) -> None:
        # Steps that were surely done when the last checkpoint was; None as long as none was seen.
        self.saved_at_step: int | None = None
        # The process that saves may tell of it some seconds after the one that steps most.
        self._looks: deque[Progress] = deque(maxlen=KEPT_LOOKS)
        self._last_save_s: float | None = None

    def look(self, now: Progress) -> None:
        if not self._looks or self._looks[-1].steps != now.steps:
            self._looks.append(now)
        if now.last_save_s is None or now.last_save_s == self._last_save_s:
            return
        self._last_save_s = now.last_save_s
        done = (one.steps for one in self._looks if one.last_step_s is not None and one.last_step_s <= now.last_save_s)
        self.saved_at_step = max(done, default=self.saved_at_step or 0)
