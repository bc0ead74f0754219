"""What is known of each loader and of each pass over it, and the facts that tell it."""

from __future__ import annotations

import json
import sys
import time
import weakref
from typing import Any

from _vtune_hooks import data_sets, forks, recorder
from _vtune_hooks.attached import Attached
from _vtune_hooks.batches import sizes_of
from _vtune_hooks.identity import Keys, Place, place_of_caller
from _vtune_hooks.kept_samples import KeptSamples
from _vtune_hooks.order import Order

# The field that carries it is 16 bits wide.
MOST_LOADERS = 65535
# Of one loader; batches that never look alike have no shape worth telling.
MOST_SHAPES = 20
# Where an iterator carries its pass: torch's own object, never pickled, and looked at at every batch.
PASS = "_vtune_pass"


class LoaderSeen:
    """One loader object, from its construction on."""

    def __init__(self, key: str, place: Place | None, asked: dict[str, Any] | None) -> None:
        self.key = key
        self.place = place
        self.asked = asked
        self.turned: dict[str, Any] = {}
        self.left_alone: dict[str, str] = {}
        self.number = 0
        # Which of all loader objects it is.
        self.made = _next("made")
        # Effective settings when the fact was last told.
        self.last_told: dict[str, Any] | None = None
        # Of the batch before, as its first array told it.
        self.shape: tuple[Any, ...] | None = None


class Pass:
    """One walk over a loader, from the making (or resetting) of its iterator to its end."""

    def __init__(self, iterator: Any, loader: Any, seen: LoaderSeen, *, number: int, resume: int) -> None:
        self.number = _next("pass")
        self.loader = 0
        self.source = weakref.ref(loader)
        self.seen = seen
        self.iterator = number
        self.resume = resume
        self.begun = time.monotonic()
        # The process whose file has this pass's fact: a fork's child tells it again.
        self.told_in: recorder.Process | None = None
        self.delivered = 0
        # Samples of the batches on their way, by the loader's own count of batches.
        self.samples: dict[int, int] = {}
        self.last_samples = 0
        self.ended = False
        self.held: dict[str, Any] = {}
        # In a trial alone: how the samples come, and, without workers, what the data set keeps of them.
        self.order: Order | None = None
        self.kept: KeptSamples | None = None
        self.many = getattr(loader, "num_workers", getattr(iterator, "_num_workers", 0)) > 0
        self.in_order = bool(getattr(loader, "in_order", True))
        # An iterable data set decides by itself how much it gives: the sampler's count is a wish.
        self.counts = getattr(loader, "_dataset_kind", getattr(iterator, "_dataset_kind", None)) == 0

    def taken_out_of_order(self, state: dict[str, Any]) -> tuple[int, int]:
        """Number and samples of the batch just taken from a loader that does not keep order: what was sent and is no
        longer on its way. −1 where that leaves a choice: workers of an iterable data set end with work undone."""
        sent, on_their_way = state["_send_idx"], state["_task_info"]
        gone = [index for index in self.samples if index < sent and index not in on_their_way]
        samples = [self.samples.pop(index) for index in gone]
        return (gone[0], samples[0]) if len(gone) == 1 else (-1, 0)


keys = Keys()
_seen: Attached[LoaderSeen] = Attached()
_numbers: dict[str, int] = {}
# What was told of each loader's batches, by its number.
_shapes: dict[int, set[tuple[int, ...]]] = {}
_counters = {"pass": 0, "iterator": 0, "made": 0}
# How often loaders were iterated, by their keys, and how often the one whose iterator was made last had been before.
_iterated: dict[str, int] = {}
_before = [0]


def _start_afresh() -> None:
    _numbers.clear()
    _shapes.clear()
    for seen in _seen.values():
        seen.last_told = None
        seen.shape = None


recorder.in_each_child.append(_start_afresh)


def _next(name: str) -> int:
    number = _counters[name]
    _counters[name] = number + 1
    return number


def remember(loader: Any, seen: LoaderSeen) -> None:
    _seen.set(loader, seen)


def seen_of(loader: Any) -> LoaderSeen:
    """A loader whose constructor we did not see (a subclass that skips torch's) is named by where it is iterated."""
    seen = _seen.get(loader)
    if seen is None:
        place = place_of_caller(sys._getframe())
        seen = LoaderSeen(keys.give(loader, getattr(loader, "dataset", None), place), place, None)
        _seen.set(loader, seen)
    return seen


def begin(iterator: Any, loader: Any) -> None:
    """A new iterator is being made."""
    found = Pass(iterator, loader, seen_of(loader), number=_next("iterator"), resume=0)
    iterator.__dict__[PASS] = found
    if found.many:
        found.held = forks.before_workers()
    key = found.seen.key
    _before[0] = _iterated.get(key, 0)
    _iterated[key] = _before[0] + 1


def times_before() -> int:
    """In a worker that is forked while its iterator is made: for how many passes others made this loader's batches."""
    return _before[0]


def begin_again(iterator: Any, loader: Any) -> None:
    """A persistent iterator is being reset."""
    before: Pass | None = iterator.__dict__.get(PASS)
    if before is None:
        begin(iterator, loader)
    else:
        seen = before.seen
        iterator.__dict__[PASS] = Pass(iterator, loader, seen, number=before.iterator, resume=before.resume + 1)


def pass_of(iterator: Any) -> Pass:
    """The pass that this iterator is in, told to the parent."""
    found: Pass | None = iterator.__dict__.get(PASS)
    if found is None:
        # It was made in a way that we did not see, so its loader is not known.
        begin(iterator, iterator)
    found = iterator.__dict__[PASS]
    if found.told_in is not recorder.here:
        tell(found, iterator)
    return found


def tell(found: Pass, iterator: Any) -> None:
    """Once the iterator is ready: what it is made of can be read from it."""
    found.told_in = recorder.here
    seen = found.seen
    source = found.source()
    if source is None:
        source = iterator
    effective = effective_of(source)
    found.many = hasattr(iterator, "_rcvd_idx")
    found.loader = _tell_loader(seen, source, effective)
    length = _length(iterator, found)
    if not recorder.here.light:
        found.order = Order(iterator)
        found.kept = None if found.many else KeptSamples(getattr(iterator, "_dataset", None))
    ready = time.monotonic()
    recorder.fact(
        "pass",
        loader=found.loader,
        iterator=found.iterator,
        resume=found.resume,
        begun=found.begun,
        ready=ready,
        length=length,
        samples=_samples(iterator, length),
        made=seen.made,
        data=data_sets.number_of(getattr(source, "dataset", getattr(source, "_dataset", None))),
        order=found.order.told if found.order is not None else None,
        worker_pids=[getattr(worker, "pid", None) for worker in getattr(iterator, "_workers", ())],
        effective=effective,
        **found.held,
        **{"pass": found.number},
    )
    if recorder.here.light:
        # The fact is told ever more seldom; what a rate must not span is counted whenever it comes.
        recorder.count_with_the_next(recorder.PASS, found.loader, found.begun, ready)
    keys.iterated(source, iterator)


def tell_shape(found: Pass, shape: tuple[Any, ...] | None, batch: Any) -> None:
    """Whenever it is another than that of the batch before; told once for each that the loader's batches have."""
    found.seen.shape = shape
    told = _shapes.setdefault(found.loader, set())
    numbers = tuple(int(size) for size in shape or ())
    if numbers and numbers not in told and len(told) < MOST_SHAPES:
        told.add(numbers)
        try:
            sizes = sizes_of(batch)
        except Exception as error:
            # A container of the training's own may not want to be listed: the shape is known all the same.
            sizes = {}
            recorder.problem(f"the size of a batch: {error!r}")
        recorder.fact("shape", loader=found.loader, shape=numbers, **sizes)


def look_at(found: Pass, index: Any, samples: int) -> None:
    """At what the sampler gave for the next batch."""
    if found.order is not None and found.order.told is None and (order := found.order.look(index)) is not None:
        recorder.fact("order", order=order, **{"pass": found.number})
    if found.kept is not None and not found.kept.over and (name := found.kept.begin(samples)) is not None:
        recorder.fact("data_set_grows", attribute=name)


def end(iterator: Any) -> None:
    found: Pass | None = iterator.__dict__.get(PASS)
    if found is not None and not found.ended:
        found.ended = True
        pass_of(iterator)
        keys.gave(iterator)
        recorder.fact("pass_end", batches=found.delivered, **{"pass": found.number})


def _tell_loader(seen: LoaderSeen, loader: Any, effective: dict[str, Any]) -> int:
    if seen.last_told == effective:
        return seen.number
    dataset = getattr(loader, "dataset", getattr(loader, "_dataset", None))
    sampler = getattr(loader, "batch_sampler", None)
    fields = {
        "key": seen.key,
        "dataset": type(dataset).__name__,
        "where": seen.place.where if seen.place is not None else None,
        "asked": seen.asked,
        "effective": effective,
        "iterable": getattr(loader, "_dataset_kind", None) == 1,
        # torch makes a BatchSampler itself exactly when batch_size is kept.
        "own_batch_sampler": sampler is not None and getattr(loader, "batch_size", None) is None,
        "turned": {k: v for k, v in seen.turned.items() if effective.get(k) == v},
        "left_alone": seen.left_alone,
    }
    # A loader made anew each epoch with the same settings keeps its number; the fact is told once.
    told = json.dumps(fields, default=repr, sort_keys=True)
    number = _numbers.get(told)
    if number is None:
        number = _numbers[told] = min(len(_numbers), MOST_LOADERS)
        recorder.fact("loader", loader=number, **fields)
    seen.number, seen.last_told, seen.shape = number, effective, None
    return number


def effective_of(loader: Any) -> dict[str, Any]:
    """As torch will use it, whoever set it."""
    batch_size = getattr(loader, "batch_size", None)
    if batch_size is None:
        batch_size = getattr(getattr(loader, "batch_sampler", None), "batch_size", None)
    workers = getattr(loader, "num_workers", getattr(loader, "_num_workers", 0))
    return {
        "num_workers": workers,
        "prefetch_factor": getattr(loader, "prefetch_factor", None),
        "persistent_workers": getattr(loader, "persistent_workers", False),
        "pin_memory": getattr(loader, "pin_memory", False),
        "batch_size": batch_size if isinstance(batch_size, int) else None,
        "in_order": getattr(loader, "in_order", True),
        "start_method": _start_method(loader) if workers else None,
    }


def _start_method(loader: Any) -> str | None:
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is None:
        return None
    context = getattr(loader, "multiprocessing_context", None) or multiprocessing
    # allow_none: asking without it would settle the default, and a later set_start_method of the training would fail.
    method = context.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    return str(method)


def _length(iterator: Any, found: Pass) -> int | None:
    """Batches of this pass, where telling it runs nobody's code but torch's and the data set's `len`."""
    sampler = getattr(iterator, "_index_sampler", None)
    inner = getattr(sampler, "sampler", sampler)
    modules = {type(sampler).__module__, type(inner).__module__}
    if not found.counts or not all(module.startswith(("torch.utils.data.", "torchdata.")) for module in modules):
        return None
    try:
        return len(sampler)  # type: ignore[arg-type]
    except Exception:
        return None


def _samples(iterator: Any, length: int | None) -> int | None:
    """Of a pass of this length, whose last batch may be a smaller one or dropped."""
    sampler = getattr(iterator, "_index_sampler", None)
    if length is None or not hasattr(sampler, "drop_last"):
        return None
    try:
        return length * sampler.batch_size if sampler.drop_last else len(sampler.sampler)  # type: ignore[union-attr]
    except Exception:
        return None
