"""A validation on batches that no loader gives: forwards without gradients between a step and the next batch.

A look at modules that are called costs time, so there is one only where a pause is due: as long after the last one as
that came after the one before it. Three that are seen are enough to know the others by how long they last.
"""

from __future__ import annotations

import sys
from typing import Any

from _vtune_hooks import compiling, module_calls, recorder

# A pause takes longer than its step itself, and than this.
LEAST_S = 0.001
SHOWN = 3
# Iterations in which they are looked for.
LOOKS = 1000


class Evaluations:
    def __init__(self) -> None:
        self.over = recorder.here.light
        # The iteration that goes on, from 1; the last one that a pause came after, and the one where the next is due.
        self._iteration = 1
        self._paused = 0
        self._due = 0
        # When its first batch came, and when its last step ended so far.
        self._begun_s = 0.0
        self._stepped_s = 0.0
        self._shown = 0
        self._is_watching = False
        self._has_seen = False

    def batch_came(self, asked: float, returned: float) -> None:
        if self.over:
            return
        if self._stepped_s:
            self._pause_is_over(asked)
            self._iteration += 1
            self.over = self._shown >= SHOWN or self._iteration > LOOKS
            self._begun_s, self._stepped_s = returned, 0.0
        elif not self._begun_s:
            self._begun_s = returned

    def stepped(self, now: float, *, may_look: bool) -> None:
        """`may_look`: nobody else listens to the modules."""
        self._stepped_s = now
        if self._iteration != self._due or self.over or not may_look:
            return
        calls = module_calls.of_modules()
        self._has_seen = False
        self._is_watching = calls is not None and not compiling.compiled and calls.watch(self)
        self.over = not self._is_watching

    def _pause_is_over(self, asked: float) -> None:
        self.leave_alone()
        seen, self._has_seen = self._has_seen, False
        if asked - self._stepped_s <= max(LEAST_S, self._stepped_s - self._begun_s):
            return
        if seen:
            self._shown += 1
            recorder.fact("evaluated", begun=self._stepped_s, ended=asked)
        apart = self._iteration - self._paused
        self._due = self._iteration + apart if self._paused and apart > 1 else 0
        self._paused = self._iteration

    def leave_alone(self) -> None:
        if self._is_watching:
            self._is_watching = False
            calls = module_calls.of_modules()
            if calls is not None:
                calls.leave_alone()

    def entering(self, module: Any, given: tuple[Any, ...]) -> bool:
        if next(iter(module.parameters()), None) is not None:
            # One without gradients is enough; with them, another model learns.
            self._has_seen = not sys.modules["torch"].is_grad_enabled()
            self.leave_alone()
        return False

    def left(self) -> None:
        pass

    def failed(self) -> None:
        self.over = True
        self.leave_alone()
