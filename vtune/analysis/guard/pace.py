"""The rate of a full run: steady, with validations, checkpoints and new epochs left out; and against its promise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from vtune.analysis.compare import RUN_TO_RUN_SD
from vtune.analysis.guard.progress import Progress
from vtune.domain.launch import Promise

# The first steps pay for caches, compilers and the memory that an allocator has yet to get.
WARM_UP_STEPS = 5
WINDOW_S, WINDOW_STEPS = 60.0, 20
# Two launches differ by so much whatever the trial's interval says; and a window is shorter than a trial.
Z95, WINDOWS_DIFFER = 1.96, 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Steps that followed each other without anything between them."""

    steps: int = 0
    seconds: float = 0.0

    def plus(self, steps: int, seconds: float) -> Span:
        return Span(steps=self.steps + steps, seconds=self.seconds + seconds)

    @property
    def rate(self) -> float | None:
        return self.steps / self.seconds if self.steps and self.seconds > 0 else None


class Pace:
    """Of one attempt. Fed with each look; remembers sums, not looks."""

    def __init__(self) -> None:
        self.whole = Span()
        # The last window that is full.
        self.window: Span | None = None
        self.windows = 0
        # Of the whole run, by somebody's signal, as often as they were seen: no span goes over one.
        self.interruptions = 0
        self._filling = Span()
        self._first: Progress | None = None
        self._before: Progress | None = None

    def left_s(self, steps: int | None) -> float | None:
        """Until so many more steps are done, with all pauses as they have been since the first steps."""
        first, last = self._first, self._before
        if steps is None or first is None or last is None or None in (first.last_step_s, last.last_step_s):
            return None
        going = Span(steps=last.steps - first.steps, seconds=(last.last_step_s or 0.0) - (first.last_step_s or 0.0))
        return steps / going.rate if going.rate is not None else None

    def look(self, now: Progress) -> None:
        now = replace(now, aside=now.aside + self.interruptions)
        before, steps = self._before, now.steps
        if before is not None and steps == before.steps:
            # Something aside happened since the last step that was seen: the interval to the next one spans it.
            return
        self._before = now
        if self._first is None and steps >= WARM_UP_STEPS:
            self._first = now
        if before is None or before.steps < WARM_UP_STEPS or before.aside != now.aside:
            return
        if now.last_step_s is None or before.last_step_s is None or now.last_step_s <= before.last_step_s:
            return
        if now.last_aside_s is not None and now.last_aside_s > before.last_step_s:
            # Counted with the step before it: its pause lies in this interval all the same.
            return
        done, seconds = steps - before.steps, now.last_step_s - before.last_step_s
        self.whole = self.whole.plus(done, seconds)
        self._filling = self._filling.plus(done, seconds)
        if self._filling.seconds >= WINDOW_S or self._filling.steps >= WINDOW_STEPS:
            self.window, self._filling = self._filling, Span()
            self.windows += 1


def least_promised(promise: Promise) -> float | None:
    """A rate below this is slower than promised, and not only another launch."""
    between = promised_between(promise)
    return between[0] if between is not None else None


def promised_between(promise: Promise) -> tuple[float, float] | None:
    """The lowest and the highest rate that a launch which keeps the promise may have."""
    rate, interval = promise.samples_per_s, promise.samples_per_s_ci95
    if rate is None:
        return None
    lowest, highest = (min(rate, interval[0]), max(rate, interval[1])) if interval is not None else (rate, rate)
    apart = math.exp(Z95 * math.sqrt(2) * RUN_TO_RUN_SD + WINDOWS_DIFFER)
    return lowest / apart, highest * apart


def is_slow(window: Span, promise: Promise) -> bool:
    least, rate = least_promised(promise), window.rate
    if least is None or rate is None or promise.mean_batch is None:
        return False
    return rate * promise.mean_batch < least
