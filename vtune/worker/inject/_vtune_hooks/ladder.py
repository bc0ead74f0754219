"""One kept batch fed again and again, doubled rung by rung, until something says that it is enough."""

from __future__ import annotations

import functools
import time
from typing import Any

from _vtune_hooks import cached_batch, devices, memory, own_memory, recorder
from _vtune_hooks.devices import Device
from _vtune_hooks.frames import unseen
from _vtune_hooks.moments import moments

# Of each rung: steps that allocate, compile and choose kernels, then steps that count. Slow steps get by with fewer,
# fast ones need more to be told from noise.
WARM_STEPS, WARM_LEAST, WARM_S = 5, 2, 3.0
STEPS, STEPS_LEAST, STEPS_S = 10, 3, 6.0
RUNG_S, FIRST_RUNG_S, MOST_STEPS = 1.5, 4.0, 50
MOST_RUNGS = 24
# Batches without a step, beyond what a step took before: the training goes on without learning.
WITHOUT_A_STEP = 8
# Without a device a larger batch soon wins nothing more, and memory is the machine's own.
GROWTH, RUNGS_WITHOUT_GROWTH = 1.03, 3
# Of the memory that is there for it: what is predicted from two sizes is no promise.
SHARE_OF_AVAILABLE, SHARE_OF_LIMIT = 0.5, 0.8

_now = time.monotonic


class _Rung:
    def __init__(self, number: int, begun: float) -> None:
        self.number = number
        self.begun = begun
        self.turns = 0
        self.batches = 0
        self.without_a_step = 0
        # The turn after which it counts, and when that was.
        self.from_turn: int | None = None
        self.from_batch = 0
        self.from_s = 0.0
        self.wait_s = 0.0
        self.device_s = 0.0
        self.restarts_s = 0.0
        self.highest_before = own_memory.highest_bytes()
        self.resident = own_memory.resident_bytes() or 0


class Ladder:
    def __init__(
        self,
        kept: Any,
        samples: int,
        *,
        at_most_s: float,
        ram_bytes: int | None,
        resident_before: int | None,
        workers: tuple[int, ...],
        most_samples: int | None,
    ) -> None:
        self._first, self._fed, self._samples = kept, kept, samples
        self._sizes = {cached_batch.size_of(kept), samples} - {0}
        self._at_most_s, self._ram_bytes, self._workers = at_most_s, ram_bytes, workers
        # One walk over the data; a batch of more is no batch of this training.
        self._most_samples = most_samples
        self._begun = _now()
        self._steps = moments.steps
        self._batches_a_step = 1
        self._peaks = [resident_before or 0]
        self._rates: list[float] = []
        self._over = False
        self._span = memory.begin_span()
        self._device = devices.find()
        self._rung = self._begin(0)

    def batch(self, asked: float) -> Any:
        """What the training gets for this `next()`."""
        ready = asked
        if not self._over:
            # Or it would compute on while the copy is made, and nobody could tell how long.
            _wait_for(self._device)
            ready = _now() if self._device is not None else asked
            self._count(asked, ready)
        return self._copied(ready) if self._fed is not None else cached_batch.fresh_copy(self._first)

    def _copied(self, ready: float) -> Any:
        made = cached_batch.fresh_copy(self._fed)
        self._rung.wait_s += _now() - ready
        return made

    def watch_restarts(self, kind: Any) -> None:
        """`next(iter(loader))` in each step ends its workers outside of any `next()`: that is the loader's time."""
        original = getattr(kind, "_shutdown_workers", None)
        if original is None:
            return

        @unseen
        @functools.wraps(original)
        def _shutdown_workers(*args: Any, **kwargs: Any) -> Any:
            begun = _now()
            try:
                return original(*args, **kwargs)
            finally:
                self._rung.restarts_s += _now() - begun

        kind._shutdown_workers = _shutdown_workers

    def _begin(self, number: int) -> _Rung:
        memory.end_span(self._span)
        self._span = memory.begin_span()
        recorder.fact("ceiling_rung", rung=number, samples=self._samples)
        return _Rung(number, _now())

    def _count(self, asked: float, ready: float) -> None:
        rung = self._rung
        turned = moments.steps != self._steps
        self._steps = moments.steps
        rung.batches += 1
        rung.resident = max(rung.resident, own_memory.resident_bytes() or 0)
        if turned:
            rung.turns += 1
            self._batches_a_step = max(self._batches_a_step, rung.without_a_step)
            rung.without_a_step = 0
        rung.without_a_step += 1
        if rung.without_a_step > 4 * self._batches_a_step + WITHOUT_A_STEP:
            self._end("the training made no step any more; it may catch its running out of memory", failed=True)
        elif turned and rung.from_turn is None:
            if rung.turns >= WARM_STEPS or (rung.turns >= WARM_LEAST and ready - rung.begun >= WARM_S):
                rung.from_turn, rung.from_batch, rung.from_s = rung.turns, rung.batches, ready
                # What is not the training's own counts from here on.
                rung.wait_s = rung.restarts_s = 0.0
        elif turned and self._is_enough(ready):
            self._finish(ready)
        elif rung.from_turn is not None:
            rung.device_s += ready - asked

    def _is_enough(self, now: float) -> bool:
        rung = self._rung
        assert rung.from_turn is not None
        steps, seconds = rung.turns - rung.from_turn, now - rung.from_s
        if steps >= STEPS_LEAST and seconds >= STEPS_S:
            return True
        least_s = FIRST_RUNG_S if rung.number == 0 else RUNG_S
        return steps >= STEPS and (seconds >= least_s or steps >= MOST_STEPS)

    def _finish(self, ended: float) -> None:
        rung = self._rung
        assert rung.from_turn is not None
        batches, steps = rung.batches - rung.from_batch, rung.turns - rung.from_turn
        highest = own_memory.highest_bytes()
        grew = highest is not None and rung.highest_before is not None and highest > rung.highest_before
        peak = highest if grew and highest is not None else rung.resident
        # Whoever reads the fact finds the records of its batches.
        recorder.flush(wait=True)
        recorder.fact(
            "ceiling_rung_end",
            rung=rung.number,
            samples=self._samples,
            steps=steps,
            batches=batches,
            begun=rung.from_s,
            ended=ended,
            device=rung.device_s,
            restarts=rung.restarts_s,
            vram_peak=memory.most_in(self._span),
            ram_peak=peak or None,
        )
        self._peaks.append(peak)
        busy_s = ended - rung.from_s - rung.wait_s - rung.restarts_s
        self._rates.append(batches * self._samples / max(busy_s, 1e-9))
        because = self._why_not_go_on((ended - rung.from_s) / steps, ended)
        if because is None:
            because = self._double()
        if because is not None:
            self._end(because)
        else:
            self._rung = self._begin(rung.number + 1)
            # This very `next()` gives its first.
            self._rung.batches = self._rung.without_a_step = 1

    def _why_not_go_on(self, step_s: float, now: float) -> str | None:
        if self._rung.number + 1 >= MOST_RUNGS:
            return f"it was doubled {MOST_RUNGS} times"
        if self._most_samples is not None and 2 * self._samples > self._most_samples:
            return f"the next size would be more than the {self._most_samples} samples of an epoch"
        last, before = self._rates[-RUNGS_WITHOUT_GROWTH:], self._rates[:-RUNGS_WITHOUT_GROWTH]
        if self._device is None and before and max(last) < GROWTH * max(before):
            return f"the rate has not grown for {RUNGS_WITHOUT_GROWTH} sizes"
        left_s = self._at_most_s - (now - self._begun)
        # A step of twice the size takes up to twice as long.
        if _rung_takes_s(2 * step_s) > left_s:
            return f"the next size cannot be measured in the {left_s:.0f} s that are left of {self._at_most_s:.0f}"
        return self._why_no_room()

    def _why_no_room(self) -> str | None:
        """From the last growth: that of a doubling is twice the one before. The first has the model's own in it."""
        now = own_memory.resident_bytes()
        if now is None:
            return None
        kept = cached_batch.bytes_of(self._fed)
        last = max(0, self._peaks[-1] - self._peaks[-2])
        growth = max((1 if len(self._peaks) == 2 else 2) * last, 4 * kept)
        peak = self._peaks[-1] + growth
        available = own_memory.available_bytes()
        if available is not None and peak - now > SHARE_OF_AVAILABLE * available:
            return f"the next size may take {_gib(peak - now)} more RAM, and {_gib(available)} are available"
        together = peak + own_memory.others_bytes(self._workers)
        if self._ram_bytes is not None and together > SHARE_OF_LIMIT * self._ram_bytes:
            return f"the next size may take {_gib(together)} of RAM, and {_gib(self._ram_bytes)} may be used"
        return None

    def _double(self) -> str | None:
        try:
            self._fed, left = cached_batch.doubled(self._fed, self._sizes)
        except cached_batch.CannotBeDoubled as error:
            return str(error)
        except Exception as error:
            return f"its batch cannot be doubled: {error!r}"
        if left and self._rung.number == 0:
            recorder.fact("ceiling_left", what=left[:8])
        self._samples *= 2
        self._sizes = {2 * size for size in self._sizes}
        return None

    def _end(self, because: str, *, failed: bool = False) -> None:
        """The parent reads it and asks the training to end; until then steps are short again."""
        self._over, self._fed = True, None
        recorder.flush(wait=True)
        recorder.fact("ceiling_done", because=because, failed=failed)


def _wait_for(device: Device | None) -> None:
    """The one place where a device is waited for: this run is nobody's, and a step must not reach into the next."""
    synchronize = getattr(device.module, "synchronize", None) if device is not None else None
    if synchronize is not None:
        try:
            synchronize()
        except Exception as error:
            recorder.problem(f"the device could not be waited for: {error!r}")


def _rung_takes_s(step_s: float) -> float:
    warm = min(WARM_STEPS * step_s, max(WARM_LEAST * step_s, WARM_S))
    return warm + min(STEPS * step_s, max(STEPS_LEAST * step_s, STEPS_S))


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
