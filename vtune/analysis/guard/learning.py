"""A full run learns more than its trial: when its promise is renewed, and why. It keeps sums only, for runs of days."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from statistics import fmean, quantiles, stdev
from typing import TypeVar

from vtune.analysis.draws import SLOW_FROM
from vtune.analysis.guard.pace import WARM_UP_STEPS, promised_between
from vtune.analysis.guard.progress import Progress
from vtune.analysis.guard.slow import Cause
from vtune.analysis.steady import FELT
from vtune.domain.launch import Promise
from vtune.domain.record import Measurement
from vtune.domain.renewal import OtherPace, RarePause, RarePauseKind, Renewal, RenewedBecause
from vtune.domain.steady import GROUND_S, GROUND_STEPS, CacheFills, Doubt, FromStorage, PartOfEpoch, Side, Trend

_Doubt = TypeVar("_Doubt", bound=Doubt)
# A pause that came this often will come again.
OFTEN = 3
# Pauses this far apart, in epochs, come once in each.
ONCE_AN_EPOCH = 0.75
# The pace is judged after GROUND_STEPS and GROUND_S, or after an hour; then each time the steps have doubled.
LONG_S = 3600.0
# A block ends after BLOCK_S and BLOCK_STEPS, or after a minute. At MOST_BLOCKS, neighbours are merged in pairs.
BLOCK_S, BLOCK_STEPS, BLOCK_LONG_S, MOST_BLOCKS = 3.0, 20, 60.0, 64
LEAST_BLOCKS = 10
# Standard errors between a rate and the promised range. Many, because half of a run may hold only five blocks.
SURELY = 4.0
# Steps between two looks that take longer by this many seconds and this share hold a stop …
STOP_S, STOP_SHARE = 0.25, 0.25
# … compared with the lower quartile of the last looks, since half of them may hold one.
USUAL_LOOKS, LEAST_LOOKS = 64, 20
# These causes pass by themselves: they are no property of the settings.
PASSING: tuple[Cause, ...] = ("neighbour", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Steps without checkpoint, validation or a new epoch between them."""

    steps: int = 0
    seconds: float = 0.0
    waited_s: float = 0.0
    looks: int = 0
    stops: int = 0
    stop_s: float = 0.0
    # Steps from one stop to the next: how many distances, their sum, the sum of their squares.
    gaps: int = 0
    gap_steps: int = 0
    gap_squares: int = 0
    # Seconds in which the machine showed slowed clocks, or cold storage.
    clocks_s: float = 0.0
    storage_s: float = 0.0

    def plus(self, other: Block) -> Block:
        return Block(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(Block)})

    @property
    def without_stops(self) -> Block:
        return replace(self, seconds=self.seconds - self.stop_s)

    @property
    def stop_error(self) -> float:
        """Standard error of the share of its time that stops take. Regular stops make it small."""
        if not self.stops:
            return 0.0
        mean = self.gap_steps / self.gaps if self.gaps else 0.0
        spread = self.gap_squares / self.gaps / mean**2 - 1 if mean and self.gaps > 1 else 1.0
        return self.stop_s / self.seconds * math.sqrt(max(0.0, spread) / self.stops + 0.25 / self.stops**2)

    @property
    def step_s(self) -> float:
        return self.seconds / self.steps


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """The steps between two looks, the count of steps by then, and how much longer than usual they took."""

    at: int
    span: Block
    more_s: float


@dataclass(slots=True)
class _Seen:
    """Pauses of one kind."""

    count: int = 0
    seconds: float = 0.0
    at_end: int = 0
    first_step: int = 0
    last_step: int = 0

    def add(self, step: int, seconds: float, *, at_end: bool) -> None:
        self.first_step = self.first_step if self.count else step
        self.count, self.last_step = self.count + 1, step
        self.seconds += seconds
        self.at_end += at_end

    @property
    def apart(self) -> float:
        return (self.last_step - self.first_step) / (self.count - 1)


class Learning:
    """One attempt, fed with each look. `why` tells the cause that the machine showed in the last seconds."""

    def __init__(self, promise: Promise, trial: Measurement, why: Callable[[float], Cause]) -> None:
        self._promise, self._trial, self._why = promise, trial, why
        # How often somebody's signal stopped the whole run: no span goes over one.
        self.interruptions = 0
        self._interrupted = 0
        self._before: Progress | None = None
        self._aside: tuple[Progress, Progress] | None = None
        self._usual: deque[float] = deque(maxlen=USUAL_LOOKS)
        # The first looks wait here until the usual time of a step is known.
        self._early: list[tuple[int, Block]] | None = []
        self._held: _Held | None = None
        self._long = False, False
        self._last_stop: int | None = None
        self._filling = Block()
        self._blocks: list[Block] = []
        self._clean = Block()
        self._judged_steps = 0
        self._seen: dict[RarePauseKind, _Seen] = {"checkpoint": _Seen(), "validation": _Seen()}
        self._renewed_for: set[RarePauseKind] = set()
        # Seconds that the renewed promise adds to each step for rare pauses.
        self._pauses_s = 0.0

    def look(self, now: Progress) -> Renewal | None:
        before = self._before
        if before is not None and now.steps == before.steps:
            return None
        self._before = now
        interrupted, self._interrupted = self.interruptions > self._interrupted, self.interruptions
        if before is None or before.steps < WARM_UP_STEPS or None in (before.last_step_s, now.last_step_s):
            return None
        seconds = (now.last_step_s or 0.0) - (before.last_step_s or 0.0)
        if interrupted or seconds <= 0 or now.steps < before.steps:
            self._aside = None
            return None
        if now.aside != before.aside or (now.last_aside_s or 0.0) > (before.last_step_s or 0.0):
            # A pause may reach into the next interval: it ends at the first interval without one.
            self._aside = (self._aside[0] if self._aside is not None else before, now)
            return None
        if self._aside is not None:
            self._add_pause(*self._aside)
            self._aside = None
        done = now.steps - before.steps
        span = Block(steps=done, seconds=seconds, waited_s=now.waited_s - before.waited_s, looks=1)
        self._clean = self._clean.plus(span)
        self._add_steps(now.steps, span)
        return self._judge(now.steps)

    def _add_steps(self, at: int, span: Block) -> None:
        self._usual.append(span.step_s)
        if self._early is None:
            self._add_span(at, span)
            return
        self._early.append((at, span))
        if len(self._early) >= LEAST_LOOKS:
            early, self._early = self._early, None
            for one in early:
                self._add_span(*one)

    def _add_span(self, at: int, span: Block) -> None:
        """Each look waits for the next one: two long looks in a row are a slower pace, not a stop."""
        usual_s = span.steps * quantiles(self._usual, n=4)[0]
        more_s = span.seconds - usual_s
        is_long = more_s > max((SLOW_FROM - 1) * usual_s / span.steps, STOP_S, STOP_SHARE * usual_s)
        if self._held is not None:
            if self._long[-1] and not self._long[-2] and not is_long:
                self._held = self._with_stop(self._held)
            self._fill(self._held.span)
        self._held = _Held(at=at, span=span, more_s=more_s)
        self._long = (self._long[-1], is_long)

    def _with_stop(self, held: _Held) -> _Held:
        gap = held.at - self._last_stop if self._last_stop is not None else 0
        self._last_stop = held.at
        gaps = {"gaps": int(gap > 0), "gap_steps": gap, "gap_squares": gap**2}
        return replace(held, span=replace(held.span, stops=1, stop_s=held.more_s, **gaps))

    def _fill(self, span: Block) -> None:
        self._filling = self._filling.plus(span)
        if self._filling.seconds < BLOCK_LONG_S and (
            self._filling.seconds < BLOCK_S or self._filling.steps < BLOCK_STEPS
        ):
            return
        block, self._filling = self._filling, Block()
        cause = self._why(block.seconds)
        if cause in PASSING:
            return
        block = replace(
            block,
            clocks_s=block.seconds if cause == "clocks" else 0.0,
            storage_s=block.seconds if cause == "storage" else 0.0,
        )
        self._blocks.append(block)
        if len(self._blocks) >= MOST_BLOCKS:
            pairs = zip(self._blocks[::2], self._blocks[1::2], strict=True)
            self._blocks = [one.plus(other) for one, other in pairs]

    def _add_pause(self, before: Progress, now: Progress) -> None:
        steps = now.steps - before.steps
        seconds = (now.last_step_s or 0.0) - (before.last_step_s or 0.0)
        usual_s = self._clean.step_s if self._clean.steps else self._promised_step_s
        if usual_s is None:
            return
        at_end = now.passes > before.passes
        left_s = seconds - steps * usual_s - (_paid_at_end_s(self._trial) if at_end else 0.0)
        saved, validated = now.felt_saves > before.felt_saves, now.validated > before.validated
        if saved:
            save_s = min(left_s, now.save_s - before.save_s) if validated else left_s
            self._seen["checkpoint"].add(before.steps, max(0.0, save_s), at_end=at_end)
            left_s -= save_s
        if validated:
            self._seen["validation"].add(before.steps, max(0.0, left_s), at_end=at_end)

    @property
    def _promised_step_s(self) -> float | None:
        rate, batch = self._promise.samples_per_s, self._promise.mean_batch
        return batch / rate if rate and batch else None

    def _judge(self, steps: int) -> Renewal | None:
        if self._promised_step_s is None:
            return None
        return self._new_pause(steps) or self._new_pace(steps)

    def _new_pause(self, steps: int) -> Renewal | None:
        for what, seen in self._seen.items():
            if seen.count < OFTEN or not self._clean.steps or self._is_known(what, seen.apart):
                continue
            mean_s = seen.seconds / seen.count
            if mean_s < FELT * self._clean.step_s * seen.apart:
                continue
            self._renewed_for.add(what)
            every = None if 2 * seen.at_end > seen.count else seen.apart
            pause = RarePause(what=what, seconds=mean_s, seen=seen.count, every_steps=every)
            return self._renewal(steps, pause, None, pauses_s=self._pauses_s + mean_s / seen.apart)
        return None

    def _is_known(self, what: RarePauseKind, apart: float) -> bool:
        own = [one for one in self._trial.pauses if one.what == what and one.cut_after_batches is None]
        if what in self._renewed_for or any(one.counted or one.every_steps is not None for one in own):
            return True
        # Seen once, without its interval: the trial's projection has one an epoch.
        samples, batch = self._trial.samples_per_epoch, self._promise.mean_batch
        return bool(own and samples and batch) and apart > ONCE_AN_EPOCH * (samples or 0) / (batch or 1)

    def _new_pace(self, steps: int) -> Renewal | None:
        clean = self._clean
        enough = (clean.steps >= GROUND_STEPS and clean.seconds >= GROUND_S) or clean.seconds >= LONG_S
        blocks = self._blocks
        if not enough or len(blocks) < LEAST_BLOCKS or clean.steps < 2 * self._judged_steps:
            return None
        self._judged_steps = clean.steps
        half = len(blocks) // 2
        first, late = blocks[:half], blocks[half:]
        way = self._departs(late)
        if way == 0:
            return None
        # If both halves depart, the whole run counts; else only the later half.
        drifts = self._departs(first) != way
        seen = late if drifts else blocks
        because = self._because(_sum(seen), _sum(first) if drifts else None)
        return self._renewal(steps, because, seen, pauses_s=self._pauses_s)

    def _departs(self, blocks: Sequence[Block]) -> int:
        """−1: surely slower than any launch that keeps the promise, 1: faster, 0: neither."""
        between, batch = promised_between(self._promise), self._promise.mean_batch
        assert between is not None and batch is not None
        whole = _sum(blocks)
        rate, error = batch / whole.step_s, SURELY * _error(blocks)
        if rate * math.exp(error) < between[0]:
            return -1
        return 1 if rate * math.exp(-error) > between[1] * self._apart else 0

    @property
    def _apart(self) -> float:
        """By how much a launch may be faster: the trial's rate holds frequent pauses, a launch's does not."""
        if self._trial.restarts_in_rate:
            return math.inf
        held = sum(pause.time_fraction or 0.0 for pause in self._trial.pauses if pause.counted)
        return 1 / (1 - min(held, 0.9))

    def _because(self, now: Block, before: Block | None) -> RenewedBecause:
        """The first reason that explains the departure. `before`: the half that still kept the promise."""
        between, batch, promised_s = promised_between(self._promise), self._promise.mean_batch, self._promised_step_s
        assert between is not None and batch is not None and promised_s is not None
        slower = now.step_s > promised_s
        rare = OFTEN <= now.stops <= now.looks / 2
        if slower and rare and batch / now.without_stops.step_s > between[0]:
            apart, each = now.steps / now.stops, now.stop_s / now.stops
            return RarePause(what="stop", seconds=each, seen=now.stops, every_steps=apart)
        change = now.step_s / promised_s - 1
        if slower and now.clocks_s > 0.5 * now.seconds:
            return OtherPace(side="training", change=change, clocks=True)
        side = self._side(now)
        doubts = self._trial.doubts
        if not slower and (cache := _of(doubts, CacheFills)) is not None:
            return cache
        if side == "loader":
            cold = now.storage_s > 0.5 * now.seconds
            if slower and (cold or _of(doubts, FromStorage) is not None):
                return FromStorage(waiting=now.waited_s / now.seconds)
            if (part := _of(doubts, PartOfEpoch)) is not None:
                return part
        if before is not None:
            return Trend(side=side, change=now.step_s / before.step_s - 1, seconds=before.seconds + now.seconds)
        return OtherPace(side=side, change=change)

    def _side(self, now: Block) -> Side:
        """The loader, where waiting for it makes up most of the difference."""
        promised_s = self._promised_step_s or 0.0
        waited_s = (self._trial.data_wait_fraction or 0.0) * promised_s
        more_s = now.step_s - promised_s
        longer_s = now.waited_s / now.steps - waited_s
        return "loader" if 2 * longer_s * math.copysign(1, more_s) > abs(more_s) else "training"

    def _renewal(
        self, steps: int, because: RenewedBecause, seen: Sequence[Block] | None, *, pauses_s: float
    ) -> Renewal:
        promise, batch = self._promise, self._promise.mean_batch
        assert batch is not None and promise.samples_per_s is not None
        before = batch / (batch / promise.samples_per_s + self._pauses_s)
        self._pauses_s = pauses_s
        rate, interval = promise.samples_per_s, promise.samples_per_s_ci95
        if seen is not None:
            rate, error = batch / _sum(seen).step_s, 1.96 * _error(seen)
            interval = rate * math.exp(-error), rate * math.exp(error)
            self._promise = replace(promise, samples_per_s=rate, samples_per_s_ci95=interval)
        return Renewal(
            trial=promise.trial,
            after_steps=steps,
            because=because,
            samples_per_s_before=before,
            samples_per_s=batch / (batch / rate + pauses_s),
            steady_samples_per_s=rate if seen is not None else None,
            steady_samples_per_s_ci95=interval if seen is not None else None,
        )


def _sum(blocks: Sequence[Block]) -> Block:
    whole = Block()
    for block in blocks:
        whole = whole.plus(block)
    return whole


def _error(blocks: Sequence[Block]) -> float:
    """Standard error of the logarithm of their rate."""
    each = [block.without_stops.step_s for block in blocks]
    return math.hypot(stdev(each) / fmean(each) / math.sqrt(len(each)), _sum(blocks).stop_error)


def _of(doubts: Sequence[Doubt], kind: type[_Doubt]) -> _Doubt | None:
    return next((doubt for doubt in doubts if isinstance(doubt, kind)), None)


def _paid_at_end_s(trial: Measurement) -> float:
    """Seconds at the end of an epoch that the trial's projection has already."""
    samples, epoch_s, rate = trial.samples_per_epoch, trial.projected.epoch_s, trial.samples_per_s
    if samples and epoch_s and rate:
        return max(0.0, epoch_s - samples / rate)
    return trial.epoch_restart_s or 0.0
