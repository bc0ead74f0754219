"""Ending the training when the parent has seen enough: from inside, at a step, the way a script itself would end."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from _vtune_hooks import recorder

if TYPE_CHECKING:
    from _vtune_hooks.steps import OptimizerSeen

# Each look costs a call of the kernel; a window ends so much later at most.
LOOK_EVERY_S = 0.1
# A bare `except:` in the training may swallow the first.
RAISED_AT_MOST = 3
# When another optimizer stepped this often since we were asked and the primary did not, the primary is done for good
# (a second phase of the training has its own).
STEPS_WITHOUT_PRIMARY = 20


class _State:
    def __init__(self) -> None:
        self.looked_s = 0.0
        self.at: int | None = None
        self.raised = 0
        # Steps of each optimizer, by number, since we were asked to end.
        self.since: dict[int, int] = {}


_state = _State()


def _start_afresh() -> None:
    global _state
    _state = _State()


recorder.in_each_child.append(_start_afresh)


def is_asked(now: float) -> bool:
    if recorder.here.light:
        return False  # a full run ends by itself
    if _state.at is not None:
        return True
    if now - _state.looked_s < LOOK_EVERY_S:
        return False
    _state.looked_s = now
    try:
        with open(os.path.join(recorder.here.folder, "stop"), encoding="ascii") as file:
            _state.at = int(file.read())
    except (OSError, ValueError):
        return False
    return True


def end_after(stepped: OptimizerSeen, alive: Sequence[OptimizerSeen]) -> None:
    """Raises SystemExit when `stepped` is the primary optimizer and far enough."""
    at = _state.at
    assert at is not None
    _state.since[stepped.number] = _state.since.get(stepped.number, 0) + 1
    if _state.raised == 0:
        primary = max(alive, key=lambda seen: (seen.steps, seen.parameters, -seen.number))
        primary_is_done = (
            _state.since.get(primary.number, 0) == 0 and _state.since[stepped.number] >= STEPS_WITHOUT_PRIMARY
        )
        if stepped is not primary and not primary_is_done:
            return
        if stepped.steps - 1 < at and not primary_is_done:
            return
        # Whoever reads the fact finds every record before it.
        recorder.last_words()
        recorder.fact("end", reason="stop", step=stepped.steps - 1)
    _state.raised += 1
    recorder.flush(wait=True)
    if _state.raised > RAISED_AT_MOST:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(0)
    raise SystemExit(0)
