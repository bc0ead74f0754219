"""What each worker's first batches were made from: checksums of the samples as the data set returned them, before they
are collated, and of the random generators that it drew from. Workers that tell the same read the same.

The first few batches only, a few samples of each: after that nothing of this is left but one call a batch.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from _vtune_hooks import content, recorder
from _vtune_hooks.cursor import cursor_of
from _vtune_hooks.frames import leave_out_of_traceback, unseen
from _vtune_hooks.generators import (
    Found,
    generators_of,
    innermost,
    place_of,
    reading_function,
    state_of,
    where_set,
)
from _vtune_hooks.own_numbers import Number, numbers_of, walked_by
from _vtune_hooks.splitting import says_it_splits

MOST_SAMPLES, MOST_BATCHES, MOST_OF_A_BATCH = 48, 24, 8
# The states of the generators, which cost more to read.
MOST_STATES = 6
MOST_CONTAINERS = 32
# Between its making and its first batch.
START = -1

_now = time.monotonic
_cpu = time.thread_time


class Reads:
    """Of one worker, or of a main process that loads by itself."""

    def __init__(self, dataset: Any, *, iterable: bool, prepared_by: Any, tell: Callable[..., None]) -> None:
        self._dataset = dataset
        self._own = innermost(dataset)
        self._iterable = iterable
        self._prepared_by = prepared_by
        self._tell = tell
        self._generators: list[Found] = []
        # Of a data set by index: what it held before its first batch.
        self._numbers: dict[str, int] = {}
        self._begun = False
        self._order = 0
        self._samples = 0
        self._batch: dict[str, Any] | None = None
        self.ends = False
        # Wall and processor time that looking at the batch in hand has taken.
        self.spent_s = 0.0
        self.spent_cpu_s = 0.0

    def begin(self) -> None:
        """Where the generators are of interest: those of a main process that loads by itself have no copies."""
        self._begun = True
        try:
            self._generators = generators_of(self._dataset)
            reading = reading_function(self._own, iterable=self._iterable)
            if not self._iterable:
                self._numbers = {name: one.value for name, one in numbers_of(self._own).items()}
            self._tell(
                order=START,
                states=self._states(),
                takes=_containers(self._own),
                places=self._places(),
                **_of_a_rank(self._dataset, iterable=self._iterable),
                reads_at=None if reading is None else place_of(reading),
                prepared_at=None if self._prepared_by is None else place_of(self._prepared_by),
                says_it_splits=self._iterable and says_it_splits(self._dataset, self._prepared_by),
            )
        except Exception:
            self.ends = True

    def collating(self, original: Any) -> Any:
        """Stands in for what collates: it gets the samples as the data set returned them."""

        @unseen
        def collate(data: Any) -> Any:
            if not self.ends:
                self.look(data, sys._getframe(1))
            try:
                return original(data)
            except BaseException as error:
                leave_out_of_traceback(error)
                raise

        return collate

    def end_batch(self) -> None:
        """Once it is made, collated too."""
        batch, self._batch = self._batch, None
        if batch is None:
            return
        try:
            if self._begun and self._order < MOST_STATES:
                batch["states"] = self._states(batch.pop("random", ()))
                batch["takes"] = _containers(self._own)
                changed = self._changed_numbers()
                batch["numbers"] = {name: one.value for name, one in changed.items()}
                if not self._order:
                    # Some are made with the first sample.
                    self._generators = generators_of(self._dataset)
                    set_at = {name: where_set(one.owner, one.attribute) for name, one in changed.items()}
                    batch["places"] = self._places() | {name: at for name, at in set_at.items() if at is not None}
                    reading = reading_function(self._own, iterable=self._iterable) if changed else None
                    batch["walks"] = walked_by(self._own, reading, list(changed))
            self._tell(order=self._order, **{name: value for name, value in batch.items() if name != "random"})
        except Exception:
            self.ends = True
        self._order += 1
        self.ends = self.ends or self._order >= MOST_BATCHES or self._samples >= MOST_SAMPLES

    def look(self, data: Any, frame: Any) -> None:
        """`frame`: torch's, which has the indices and the iterator."""
        begun, cpu = _now(), _cpu()
        try:
            fetch = frame.f_locals
            asked = fetch.get("possibly_batched_index")
            fetcher = fetch.get("self")
            many = bool(getattr(fetcher, "auto_collation", type(data) is list))
            samples = list(data[:MOST_OF_A_BATCH]) if many and isinstance(data, (list, tuple)) else [data]
            sums = [content.sums_of(sample) for sample in samples]
            batch = self._batch = {"contents": [one for one, _ in sums], "kept": [one for _, one in sums]}
            if self._iterable:
                batch["cursor"], batch["random"] = cursor_of(getattr(fetcher, "dataset_iter", None))
            elif asked is not None:
                indices = list(asked[:MOST_OF_A_BATCH]) if many else [asked]
                batch["keys"] = [_key(index) for index in indices]
            self._samples += len(samples)
        except Exception:
            self.ends = True
        self.spent_s += _now() - begun
        self.spent_cpu_s += _cpu() - cpu

    def _changed_numbers(self) -> dict[str, Number]:
        if self._iterable:
            return {}
        return {name: one for name, one in numbers_of(self._own).items() if one.value != self._numbers.get(name)}

    def _places(self) -> dict[str, str]:
        return {one.name: one.where for one in self._generators if one.where is not None}

    def _states(self, further: Any = ()) -> dict[str, Any]:
        found = {one.name: state_of(one.generator) for one in (*further, *self._generators)}
        return {name: state for name, state in found.items() if state is not None}


def of_worker(worker: int, dataset: Any, *, iterable: bool, prepared_by: Any) -> Reads:
    def tell(**fields: Any) -> None:
        recorder.fact_of_a_worker("reads", worker=worker, **fields)

    return Reads(dataset, iterable=iterable, prepared_by=prepared_by, tell=tell)


def of_main_process(iterator: Any, number: int) -> None:
    """Without workers: the samples that a run with some is compared with."""
    fetcher: Any = getattr(iterator, "_dataset_fetcher", None)
    original = getattr(fetcher, "collate_fn", None)
    if original is None:
        return

    def tell(**fields: Any) -> None:
        recorder.fact("reads", **fields, **{"pass": number})

    reads = Reads(fetcher.dataset, iterable=False, prepared_by=None, tell=tell)
    if of_a_rank := _of_a_rank(fetcher.dataset, iterable=False):
        tell(order=START, **of_a_rank)

    @unseen
    def collate(data: Any) -> Any:
        reads.end_batch()
        if reads.ends:
            fetcher.collate_fn = original
        else:
            reads.look(data, sys._getframe(1))
        try:
            return original(data)
        except BaseException as error:
            leave_out_of_traceback(error)
            raise

    fetcher.collate_fn = collate


def _of_a_rank(dataset: Any, *, iterable: bool) -> dict[str, Any]:
    """Beside other ranks: how many items a data set by index has, and a checksum of its attributes, which is another
    where each rank has a part of the data."""
    if iterable or (recorder._number_in_environment("WORLD_SIZE") or 1) < 2:
        return {}
    try:
        return {"items": len(dataset), "attributes": content.sums_of(dataset)[0]}
    except Exception:
        return {}


def _containers(dataset: Any) -> dict[str, int]:
    """How much is left in what the data set holds, by its attributes; -1 of what is read once."""
    found: dict[str, int] = {}
    for name, value in list(getattr(dataset, "__dict__", {}).items())[:MOST_CONTAINERS]:
        if type(value) in (list, deque, set, dict):
            found[name] = len(value)
        elif hasattr(type(value), "__next__") and not hasattr(type(value), "read"):
            found[name] = -1
    return found


def _key(index: Any) -> Any:
    if type(index) is int:
        return index
    try:
        return int(index.__index__())
    except Exception:
        return repr(index)[:40]
