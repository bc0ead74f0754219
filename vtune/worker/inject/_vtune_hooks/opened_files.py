"""Inside a loader's worker: how many files Python code opens for one batch.

One look, in the worker's second batch (the first pays for imports): a profile function counts calls of `open`, and is
gone when the batch is. What stands in for `open` would show in warnings and tracebacks, and an audit hook is called for
each `id()`, too, for ever. What C code opens by itself, or is given `open` to call (`map`), is missed.
"""

from __future__ import annotations

import _io
import _thread
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from _vtune_hooks.frames import unseen

# A batch that calls more is not counted: an event takes 0.1 to 0.2 µs, so that a look stays below some 10 ms.
MOST_EVENTS = 50_000
# Before 3.12 Python code that calls nothing runs up to twice as slowly while it is looked at, which no number of events
# bounds; from then on it does not.
MOST_SLOWED_S = 0.02 if sys.version_info < (3, 12) else None
# Multiprocessing's own, which carry finished batches away.
FEEDER, SHARER = "QueueFeederThread", "multiprocessing.resource_sharer"

_OPENING = {id(_io.open), id(os.open)}
# Whoever asks finds everything as without us; files opened by other threads and processes are not seen.
_LEAVING = {
    id(vars(module)[name])
    for module, names in (
        (sys, ("getprofile", "setprofile")),
        (os, ("fork", "forkpty")),
        (_thread, ("start_new_thread", "start_joinable_thread")),
    )
    for name in names
    if name in vars(module)
}
_of_descriptor = os.fdopen.__code__
_now = time.perf_counter


class Look:
    """From its making to `files()`, in one thread."""

    def __init__(self, *, most_events: int = MOST_EVENTS, most_slowed_s: float | None = MOST_SLOWED_S) -> None:
        self._counted = [0]
        self._watch = _watching(self._counted, most_events, most_slowed_s)
        sys.setprofile(self._watch)

    def files(self) -> int | None:
        """Ends it; None when it had ended before, or could not see all."""
        # Else it would take this for the training's own question.
        counted, self._counted[0] = self._counted[0], -1
        if sys.getprofile() is not self._watch:
            return None
        sys.setprofile(None)
        return None if counted < 0 or _has_threads_of_its_own() else counted


def _watching(counted: list[int], left: int, slow_left: float | None) -> Callable[[Any, str, Any], None]:
    # The `open` that runs now; what its `opener` opens is the same file.
    inside = 0
    since, in_c = _now(), False

    @unseen
    def watch(frame: Any, event: str, arg: Any) -> None:
        nonlocal left, slow_left, since, in_c, inside
        if counted[0] < 0:
            return
        left -= 1
        if slow_left is not None:
            now = _now()
            if not in_c:
                slow_left -= now - since
            since, in_c = now, event == "c_call"
        if event == "c_call":
            what = id(arg)
            if what in _OPENING:
                if not inside:
                    inside = what
                    # A descriptor is a file that is open already.
                    counted[0] += frame.f_code is not _of_descriptor
            elif what in _LEAVING:
                left = -1
        elif inside and event != "call" and id(arg) == inside:
            inside = 0
        if left < 0 or (slow_left is not None and slow_left < 0):
            counted[0] = -1
            try:
                sys.setprofile(None)
            except Exception:  # an audit hook of the training's own may forbid it
                pass

    return watch


def _has_threads_of_its_own() -> bool:
    sharer = getattr(sys.modules.get(SHARER), "_resource_sharer", None)
    known = (threading.current_thread(), getattr(sharer, "_thread", None))
    return any(one not in known and one.name != FEEDER for one in threading.enumerate())


def look() -> Look | None:
    """None where somebody else looks already, or forbids it."""
    try:
        return Look() if sys.getprofile() is None else None
    except Exception:
        return None
