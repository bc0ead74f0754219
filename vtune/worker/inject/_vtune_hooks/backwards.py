"""Every backward: how many make a step, and which loader fed them."""

from __future__ import annotations

import functools
import inspect
import threading
import time
from types import ModuleType
from typing import Any

from _vtune_hooks import recorder
from _vtune_hooks.frames import leave_out_of_traceback, unseen
from _vtune_hooks.moments import moments


class _Running(threading.local):
    depth = 0


_running = _Running()
_counted = [0]
_now = time.monotonic


def _start_afresh() -> None:
    _counted[0] = 0


recorder.in_each_child.append(_start_afresh)


def placed(module: ModuleType) -> None:
    """After torch.autograd has run. `Tensor.backward` looks the function up there at every call."""
    original = vars(module).get("backward")
    if not inspect.isfunction(original):
        recorder.problem("torch.autograd.backward is not a function here: backwards are not counted")
        return
    wrapper: Any = _going_backward(original)
    wrapper.__signature__ = inspect.signature(original)
    setattr(module, "backward", wrapper)  # noqa: B010


def _going_backward(original: Any) -> Any:
    running = _running

    @unseen
    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        depth = running.depth
        if moments.active and depth == 0 and recorder.is_main_thread():
            moments.backward_begins()
        running.depth = depth + 1
        started = _now()
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            leave_out_of_traceback(error)
            raise
        finally:
            running.depth = depth
        # One inside another (a checkpointed block) is part of the outer one.
        if depth == 0 and not recorder.here.silent:
            _went_backward(started, _now())
        return result

    return backward


def _went_backward(started: float, ended: float) -> None:
    try:
        number = _counted[0]
        _counted[0] = number + 1
        flags = 0
        if recorder.is_main_thread():
            flags = recorder.MAIN_THREAD
            if moments.active:
                moments.backward_ended()
        recorder.record(recorder.BACKWARD, flags, 0, 0, number, started, ended, 0.0, 0, 0)
    except Exception as error:
        recorder.problem(f"a backward: {error!r}")
