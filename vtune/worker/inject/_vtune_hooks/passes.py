"""What is known of each loader and of each pass over it, and the facts that tell it."""

from __future__ import annotations

import json
import sys
import time
import weakref
from typing import Any

from _vtune_hooks import recorder
from _vtune_hooks.attached import Attached
from _vtune_hooks.identity import Keys, Place, place_of_caller

# The field that carries it is 16 bits wide.
MOST_LOADERS = 65535
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
        # Effective settings when the fact was last told.
        self.last_told: dict[str, Any] | None = None


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
        self.many = getattr(loader, "num_workers", getattr(iterator, "_num_workers", 0)) > 0
        self.in_order = bool(getattr(loader, "in_order", True))
        # An iterable data set decides by itself how much it gives: the sampler's count is a wish.
        self.counts = getattr(loader, "_dataset_kind", getattr(iterator, "_dataset_kind", None)) == 0


keys = Keys()
_seen: Attached[LoaderSeen] = Attached()
_numbers: dict[str, int] = {}
_counters = {"pass": 0, "iterator": 0}
# Keys of the loaders that were iterated, and whether the one whose iterator was made last had been before.
_iterated: set[str] = set()
_again = [False]


def _start_afresh() -> None:
    _numbers.clear()
    for seen in _seen.values():
        seen.last_told = None


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
    key = found.seen.key
    _again[0] = key in _iterated
    _iterated.add(key)


def is_again() -> bool:
    """In a worker that is forked while its iterator is made: whether others made batches for this loader before."""
    return _again[0]


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
    recorder.fact(
        "pass",
        loader=found.loader,
        iterator=found.iterator,
        resume=found.resume,
        begun=found.begun,
        ready=time.monotonic(),
        length=_length(iterator, found),
        worker_pids=[getattr(worker, "pid", None) for worker in getattr(iterator, "_workers", ())],
        effective=effective,
        **{"pass": found.number},
    )
    keys.iterated(source)


def end(iterator: Any) -> None:
    found: Pass | None = iterator.__dict__.get(PASS)
    if found is not None and not found.ended:
        found.ended = True
        pass_of(iterator)
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
    seen.number, seen.last_told = number, effective
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
