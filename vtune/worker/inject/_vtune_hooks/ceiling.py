"""How fast the training would be with data for free, and its loader with computing for free.

Only where spec.json asks for it (FindCeiling). The training gets a few real batches; then, inside one `next()`, its
loader is drained by nobody but us; from then on every `next()` gives a copy of one kept batch, and rung by rung that
batch is doubled. What each step took is in the records of the batches; the facts here say which batches are whose.
"""

from __future__ import annotations

import functools
import json
import os
import time
from typing import Any

from _vtune_hooks import cached_batch, ending, own_memory, passes, recorder
from _vtune_hooks.frames import leave_out_of_traceback, unseen
from _vtune_hooks.ladder import Ladder
from _vtune_hooks.moments import moments

# The first step allocates and the second still warms caches; with accumulation a step takes several batches.
REAL_STEPS = 3
# A training whose steps are not seen, or whose passes are all too short to drain, is not waited for beyond this.
MOST_REAL_S = 45.0
# The drain outlasts the batches that lay ready by so many times, and a second of noise; a loader that takes 20 s for a
# batch is not waited for much longer.
STOCKS, LEAST_BATCHES = 4, 16
LEAST_DRAIN_S, MOST_DRAIN_S = 1.5, 40.0
# Workers that fill their queues again would take cores from the first rung.
MOST_REFILL_S = 10.0

_now = time.monotonic


def fed(original: Any) -> Any:
    """`__next__` of torch's iterators as it is, unless the spec asks for the ceiling of some loader."""
    wanted = None if recorder.here.light else _wanted()
    if wanted is None:
        return original
    search = Search(wanted)
    recorder.in_each_child.append(search.start_afresh)

    @unseen
    @functools.wraps(original)
    def __next__(self: Any) -> Any:
        ours = not recorder.here.silent and search.is_for(self)
        if ours:
            served = search.serve(self, original)
            if served is not None:
                return served[0]
        try:
            batch = original(self)
        except BaseException as error:
            leave_out_of_traceback(error)
            raise
        if ours:
            search.saw(self, batch)
        return batch

    return __next__


def _wanted() -> dict[str, Any] | None:
    try:
        with open(os.path.join(recorder.here.folder, "spec.json"), encoding="utf-8") as file:
            effects = json.load(file).get("effects", ())
        return next((effect for effect in effects if effect.get("kind") == "FindCeiling"), None)
    except Exception:  # who reads it for the loaders' options tells
        return None


class Search:
    """One for the process; a fork's child begins anew."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        self._wanted = wanted
        self.start_afresh()

    def start_afresh(self) -> None:
        self._off = False
        self._ladder: Ladder | None = None
        self._kept: Any = None
        self._samples = 0
        self._asked_first_s: float | None = None
        self._resident_first: int | None = None
        self._steps = moments.steps
        self._turns = 0

    def is_for(self, iterator: Any) -> bool:
        found = iterator.__dict__.get(passes.PASS)
        return found is not None and not self._off and found.seen.key == self._wanted["loader"]

    def serve(self, iterator: Any, original: Any) -> tuple[Any] | None:
        """The batch to be given, or None for a real one."""
        try:
            return self._serve(iterator, original)
        except Exception as error:
            self._give_up(f"the hook failed: {error!r}")
            return None

    def saw(self, iterator: Any, batch: Any) -> None:
        """A real batch: the first of the largest is kept, for an epoch's last may be a small one."""
        try:
            samples = _samples(iterator, batch, taken=False)
        except Exception as error:
            self._give_up(f"the hook failed: {error!r}")
            return
        if samples <= self._samples:
            return
        try:
            self._kept, self._samples = cached_batch.fresh_copy(batch), samples
        except Exception as error:
            self._give_up(f"its batches ({type(batch).__name__}) cannot be copied: {error!r}")

    def _serve(self, iterator: Any, original: Any) -> tuple[Any] | None:
        now = _now()
        if self._ladder is not None:
            return (self._ladder.batch(now),)
        if self._asked_first_s is None:
            self._asked_first_s, self._resident_first = now, own_memory.resident_bytes()
            moments.look_at_no_step_closely()
        if moments.steps != self._steps:
            self._steps = moments.steps
            self._turns += 1
        if not self._is_time(iterator, now):
            return None
        self._drain(iterator, original)
        if ending.is_asked(_now()):
            return None
        self._ladder = Ladder(
            self._kept,
            self._samples,
            at_most_s=float(self._wanted["ladder_s"]),
            ram_bytes=self._wanted["ram_bytes"],
            resident_before=self._resident_first,
            workers=tuple(getattr(worker, "pid", 0) or 0 for worker in getattr(iterator, "_workers", ())),
            most_samples=passes._samples(iterator, passes._length(iterator, iterator.__dict__[passes.PASS])),
        )
        self._kept = None
        self._ladder.watch_restarts(type(iterator))
        return (self._ladder.batch(_now()),)

    def _is_time(self, iterator: Any, now: float) -> bool:
        assert self._asked_first_s is not None
        if self._kept is None or self._turns < REAL_STEPS:
            return False
        if now - self._asked_first_s > MOST_REAL_S:
            return True
        found: passes.Pass = iterator.__dict__[passes.PASS]
        length, stock = passes._length(iterator, found), _stock(iterator)[1]
        # Near the end of a pass there is too little left to drain: a fresh one is better, unless all are as short.
        return length is None or found.delivered <= 1 or length - found.delivered >= stock + _wanted_batches(stock)

    def _drain(self, iterator: Any, original: Any) -> None:
        workers, stock = _stock(iterator)
        begun = _now()
        times: list[float] = []
        samples: list[int] = []
        because = None
        while because is None:
            try:
                batch = original(iterator)
            except StopIteration:
                because = "exhausted"
                break
            now = _now()
            times.append(now)
            samples.append(_samples(iterator, batch, taken=True))
            del batch
            after = len(times) - stock
            if after >= _wanted_batches(stock) and now - begun >= LEAST_DRAIN_S:
                because = "enough"
            elif ending.is_asked(now):
                because = "stop"
            elif now - begun >= MOST_DRAIN_S:
                because = "time"
        if because == "exhausted":
            # Also where the pass had no batch left: it is over, and the training's loop need not know.
            passes.end(iterator)
        measured = _measured(times, samples, begun=begun, stock=stock, workers=workers)
        recorder.fact("ceiling_drain", batches=len(times), stock=stock, because=because, **measured)
        if because != "exhausted" and stock and measured["batches_measured"]:
            time.sleep(min(MOST_REFILL_S, 1.2 * stock * measured["seconds"] / measured["batches_measured"]))

    def _give_up(self, because: str) -> None:
        self._off, self._kept, self._ladder = True, None, None
        recorder.fact("ceiling_done", because=because)


def _wanted_batches(stock: int) -> int:
    return max(LEAST_BATCHES, STOCKS * stock)


def _measured(times: list[float], samples: list[int], *, begun: float, stock: int, workers: int) -> dict[str, Any]:
    """Of what came after the stock, whole rounds of the workers: they all begin at once, and deliver in bursts."""
    count = max(0, len(times) - stock)
    count -= count % max(1, workers)
    start = times[stock - 1] if stock and count else begun
    return {
        "batches_measured": count,
        "samples": sum(samples[stock : stock + count]),
        "seconds": times[stock + count - 1] - start if count else 0.0,
    }


def _stock(iterator: Any) -> tuple[int, int]:
    """Workers, and the batches that may lie ready."""
    source = iterator.__dict__[passes.PASS].source()
    workers = getattr(iterator, "_num_workers", getattr(source, "num_workers", 0)) or 0
    prefetch = getattr(iterator, "_prefetch_factor", getattr(source, "prefetch_factor", None)) or 0
    return workers, workers * prefetch


def _samples(iterator: Any, batch: Any, *, taken: bool) -> int:
    """By the sampler, else by the loader's batch size, else by the leading dimension. `taken`: nobody else will count
    this batch any more."""
    found: passes.Pass = iterator.__dict__[passes.PASS]
    state, counted = iterator.__dict__, 0
    if found.counts and not found.many:
        counted = found.last_samples
    elif found.counts and found.in_order:
        number = state.get("_rcvd_idx", 0) - 1
        counted = found.samples.pop(number, 0) if taken else found.samples.get(number, 0)
    elif taken and not found.in_order:
        counted = found.taken_out_of_order(state)[1]
    if taken:
        found.delivered += 1
    source = found.source()
    # Not by its truth: that asks the data set for its length.
    size = passes.effective_of(iterator if source is None else source)["batch_size"]
    return counted or size or cached_batch.size_of(batch) or 1
