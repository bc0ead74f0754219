"""Hooks on torch's DataLoader and its iterators: what is made, with which settings, and every batch that comes out."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from _vtune_hooks import ceiling, passes, reads, recorder, turning
from _vtune_hooks.batches import LARGEST, first_shape, leading_of
from _vtune_hooks.frames import leave_out_of_traceback, unseen
from _vtune_hooks.identity import place_of_caller
from _vtune_hooks.moments import moments

ASKED = (
    "batch_size", "shuffle", "num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "drop_last",
    "timeout", "in_order",
)  # fmt: skip

_now = time.monotonic


class _Nesting(threading.local):
    depth = 0


_nesting = _Nesting()


def placed(module: ModuleType) -> None:
    """After torch.utils.data.dataloader has run."""
    watch_loader_class(module, "DataLoader")
    base = "_BaseDataLoaderIter"
    watch_iterator_class(module, base, "__init__", _making)
    watch_iterator_class(module, base, "_next_index", _indexing)
    watch_iterator_class(module, base, "__next__", _delivering)
    watch_iterator_class(module, "_MultiProcessingDataLoaderIter", "_reset", _resetting)


def watch_loader_class(module: ModuleType, name: str) -> None:
    for method, wrap in (("__init__", _constructing), ("_get_iterator", _getting_iterator)):
        watch_iterator_class(module, name, method, wrap)


def watch_iterator_class(module: ModuleType, name: str, method: str, wrap: Callable[[Any], Any]) -> None:
    """Replace a method that the class itself defines; another torch may not have it."""
    owner = vars(module).get(name)
    original = vars(owner).get(method) if isinstance(owner, type) else None
    if not inspect.isfunction(original):
        recorder.problem(f"{module.__name__}.{name}.{method} is not a function here: not watched")
        return
    wrapper = wrap(original)
    # Frameworks read the constructor's arguments, some by ways that do not follow __wrapped__.
    wrapper.__signature__ = inspect.signature(original)
    setattr(owner, method, wrapper)


def _guarded(work: Callable[..., Any], *args: Any) -> Any:
    """Ours; it must never reach the user."""
    try:
        return work(*args)
    except Exception as error:
        recorder.problem(f"{work.__name__}: {error!r}")
        return None


def _constructing(original: Any) -> Any:
    signature = inspect.signature(original)

    @unseen
    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if not recorder.here.silent:
            args, kwargs = _guarded(_before_construction, signature, self, args, kwargs) or (args, kwargs)
        try:
            original(self, *args, **kwargs)
        except BaseException as error:
            leave_out_of_traceback(error)
            raise

    return __init__


def _before_construction(
    signature: inspect.Signature, loader: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        bound = signature.bind(loader, *args, **kwargs)
    except TypeError:
        return args, kwargs  # torch itself will say so
    bound.apply_defaults()
    arguments = bound.arguments
    place = place_of_caller(sys._getframe())
    seen = passes.LoaderSeen(
        passes.keys.give(loader, arguments.get("dataset"), place),
        place,
        {name: _plain(arguments[name]) for name in ASKED if name in arguments},
    )
    passes.remember(loader, seen)
    wanted = turning.wanted_of(seen.key)
    if not wanted:
        return args, kwargs
    seen.turned, seen.left_alone = turning.turn(wanted, arguments)
    return bound.args[1:], bound.kwargs


def _getting_iterator(original: Any) -> Any:
    @unseen
    @functools.wraps(original)
    def _get_iterator(self: Any, *args: Any, **kwargs: Any) -> Any:
        silent = recorder.here.silent
        begun = _now()
        if not silent:
            _guarded(_assert_again, self)
        try:
            iterator = original(self, *args, **kwargs)
        except BaseException as error:
            leave_out_of_traceback(error)
            raise
        if not silent:
            _guarded(_iterator_is_ready, iterator, begun)
        return iterator

    return _get_iterator


def _assert_again(loader: Any) -> None:
    seen = passes.seen_of(loader)
    if seen.turned:
        turning.assert_again(loader, seen.turned)


def _iterator_is_ready(iterator: Any, begun: float) -> None:
    found: passes.Pass | None = getattr(iterator, "__dict__", {}).get(passes.PASS)
    if found is not None and found.told_in is None:
        found.begun = min(found.begun, begun)
        passes.tell(found, iterator)
        if found.counts and not found.many and not recorder.here.light and not passes.times_before():
            reads.of_main_process(iterator, found.number)


def _making(original: Any) -> Any:
    @unseen
    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if not recorder.here.silent:
            loader = args[0] if args else kwargs.get("loader")
            _guarded(passes.begin, self, loader)
        try:
            original(self, *args, **kwargs)
        except BaseException as error:
            leave_out_of_traceback(error)
            raise

    return __init__


def _resetting(original: Any) -> Any:
    @unseen
    @functools.wraps(original)
    def _reset(self: Any, *args: Any, **kwargs: Any) -> Any:
        first = kwargs["first_iter"] if "first_iter" in kwargs else len(args) > 1 and args[1]
        again = not first and not recorder.here.silent
        loader = args[0] if args else kwargs.get("loader")
        if again:
            _guarded(passes.begin_again, self, loader)
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            leave_out_of_traceback(error)
            raise
        if again:
            _guarded(passes.pass_of, self)
        return result

    return _reset


def _indexing(original: Any) -> Any:
    @unseen
    @functools.wraps(original)
    def _next_index(self: Any) -> Any:
        try:
            index = original(self)
        except BaseException as error:
            leave_out_of_traceback(error)
            raise
        found = self.__dict__.get(passes.PASS)
        if found is not None and (found.counts or not found.in_order):
            samples = len(index) if found.counts and type(index) in (list, tuple) else 0
            if not found.many:
                found.last_samples = samples
            else:
                # The batch will be sent under this number, and delivered under it.
                found.samples[self.__dict__.get("_send_idx", -1)] = samples
            if found.order is not None:
                _guarded(passes.look_at, found, index, samples)
        return index

    return _next_index


def _delivering(original: Any) -> Any:
    nesting = _nesting
    original = ceiling.fed(original)

    @unseen
    @functools.wraps(original)
    def __next__(self: Any) -> Any:
        depth = nesting.depth
        nesting.depth = depth + 1
        if moments.asks and depth == 0:
            moments.batch_is_asked()
        asked = _now()
        try:
            batch = original(self)
        except BaseException as error:
            leave_out_of_traceback(error)
            if isinstance(error, StopIteration) and not recorder.here.silent:
                _guarded(passes.end, self)
            raise
        finally:
            nesting.depth = depth
        if not recorder.here.silent:
            returned = _now()
            try:
                _delivered(self, batch, asked, returned, depth)
            except Exception as error:
                recorder.problem(f"a delivered batch: {error!r}")
        return batch

    return __next__


def _delivered(iterator: Any, batch: Any, asked: float, returned: float, depth: int) -> None:
    state = iterator.__dict__
    found = state.get(passes.PASS)
    if found is None or found.told_in is not recorder.here:
        found = passes.pass_of(iterator)
    if not found.many:
        index, samples = found.delivered, found.last_samples
    elif found.in_order:
        index = state["_rcvd_idx"] - 1
        samples = found.samples.pop(index, 0)
    else:
        index, samples = found.taken_out_of_order(state)
    found.delivered += 1
    if found.delivered == 1:
        passes.keys.gave(iterator)
    shape = first_shape(batch)
    if shape != found.seen.shape:
        passes.tell_shape(found, shape, batch)
    grad = _gradients_are_on()
    flags = recorder.GRADIENTS if grad else 0
    if recorder.is_main_thread():
        flags |= recorder.MAIN_THREAD
        if moments.active and not depth:
            moments.batch_is_of(found, shape, asked, returned, grad=grad)
            moments.batch_came(asked, returned)
    if depth:
        flags |= recorder.NESTED
    recorder.record(
        recorder.DELIVERED,
        flags,
        found.loader,
        found.number,
        index,
        asked,
        returned,
        0.0,
        leading_of(shape),
        min(samples, LARGEST),
    )


def _gradients_are_on() -> bool:
    global _gradients_are_on
    _gradients_are_on = sys.modules["torch"].is_grad_enabled
    return bool(_gradients_are_on())


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str)) else type(value).__name__
