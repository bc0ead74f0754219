"""Checkpoints: how long the training stands still in `torch.save`."""

from __future__ import annotations

import inspect
import os
import sys
import time
from types import ModuleType
from typing import Any

from _vtune_hooks import other_writers, recorder
from _vtune_hooks.frames import around
from _vtune_hooks.identity import place_of_caller

# A save that is not felt is not worth a line; a training that saves all the time pays for it in its steps.
LEAST_S = 0.001
MOST_TOLD = 500
# A full run goes on from its last checkpoint, however little that took: such are counted apart.
FELT, BRIEF = 0, 2

_told = [0]
_now = time.monotonic


def _start_afresh() -> None:
    _told[0] = 0


recorder.in_each_child.append(_start_afresh)


def placed(module: ModuleType) -> None:
    """After torch.serialization has run, and before `torch.save` is taken from it."""
    other_writers.placed(module)
    original = vars(module).get("save")
    if not inspect.isfunction(original):
        recorder.problem("torch.serialization.save is not a function here: checkpoints are not seen")
        return
    wrapper = around(original, before=_begin, after=_saved)
    wrapper.__signature__ = inspect.signature(original)
    setattr(module, "save", wrapper)  # noqa: B010


def _begin(args: Any, kwargs: Any) -> float:
    return _now()


def _saved(result: Any, begun: float, args: Any, kwargs: Any) -> Any:
    try:
        seconds = _now() - begun
        # In a thread of its own it holds nobody up; in a loader's worker it is part of a batch.
        felt = seconds >= LEAST_S
        if not (felt or recorder.here.light) or not recorder.is_main_thread() or recorder.here.silent:
            return result
        if recorder.here.light:
            kind, source = recorder.SAVED, FELT if felt else BRIEF
            recorder.record(kind, recorder.MAIN_THREAD, source, 0, 0, begun, begun + seconds, 0.0, 0, 0)
        if felt and _told[0] < MOST_TOLD:
            _told[0] += 1
            recorder.fact(
                "saved",
                begun=begun,
                seconds=seconds,
                where=place_of_caller(sys._getframe(1)).where,
                **_file_of(args[1] if len(args) > 1 else kwargs.get("f")),
            )
    except Exception as error:
        recorder.problem(f"a checkpoint: {error!r}")
    return result


def _file_of(target: Any) -> dict[str, Any]:
    """Empty where it went into memory or to an object that has no name."""
    path = target if isinstance(target, (str, os.PathLike)) else getattr(target, "name", None)
    if not isinstance(path, (str, os.PathLike)):
        return {}
    try:
        return {"path": os.path.abspath(os.fspath(path)), "bytes": os.stat(path).st_size}
    except (OSError, ValueError, TypeError):
        return {}
