"""The way of a batch through a step, in the few that are looked at closely: transfer, forward, loss, backward, step.

Each mark says that the stage before it has ended: its host time, an event where there is a device, and the most that
was allocated since the mark before. What does not fit the picture spoils the sample: it is thrown away, not mended.
Several models may take part, frozen ones and those without gradients, too, before the step and after it: a generator, a
teacher, a network in the loss. Their calls are computing, not work of the main process.
The device's part is not yet run on a GPU.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import Any

from _vtune_hooks import compiling, devices, memory, module_calls, precision, recorder
from _vtune_hooks.batches import first_shape, leading_of
from _vtune_hooks.device_clock import Clock

BEGIN, TRANSFER, FORWARD, LOSS, BACKWARD, STEP = range(6)
# The first steps allocate, tune kernels, fill caches. A prime apart, because what is done every 2nd, 5th or 10th step
# shall be neither in all samples nor in none. Twelve bring a mean's error below a third of the steps' own spread, and
# the last is the 83rd: within a usual window.
FIRST, EVERY, MOST = 5, 7, 12
# A training that does not fit the picture so often never will.
SPOILED_AT_MOST = 4
# Micro-batches of one step: more marks than this cost more than they tell.
MOST_MARKS = 200

_now = time.monotonic


class Mark:
    def __init__(self, stage: int, host_s: float, event: Any, peak: int | None) -> None:
        self.stage = stage
        self.host_s = host_s
        self.event = event
        self.peak = peak


class Stages:
    def __init__(self) -> None:
        self.taken = 0
        self.spoiled = 0
        self.over = False
        # A sample is being taken.
        self.open = False
        self.clock: Clock | None = None
        self.index = 0
        self._marks: list[Mark] = []
        # What ended last; FORWARD with `_inside` while the model runs.
        self._at = BEGIN
        self._inside: Any = None
        self._backward_runs = False
        self._again_without_batch = False
        # Number of the step that the iteration ends with, and how many marks there were by then.
        self._ended: tuple[int, int] | None = None
        self._read_precision = False
        # Of the iteration: which model learnt from how many rows, and when. They tell which batches a step used.
        self._forwards: list[tuple[int, int, float]] = []
        self._models: dict[int, int] = {}
        self._pending: deque[tuple[int, int, list[Mark], list[tuple[int, int, float]]]] = deque()

    def is_wanted(self, number: int) -> bool:
        return not self.over and number >= FIRST and (number - FIRST) % EVERY == 0

    def begin(self, clock: Clock | None) -> None:
        """A batch has come; the one before it, if any, led to nothing so far."""
        if not self.open:
            self._forwards = []
        self._close()
        self.clock = clock
        if compiling.compiled:
            self._give_up("torch.compile is used: watching its modules would make it compile again")
            return
        self.index = int(clock.device.index_now()) if clock is not None else 0
        self._at, self._inside, self._backward_runs, self._again_without_batch = BEGIN, None, False, False
        self._read_precision, self._ended = False, None
        self.open = True
        # Before the mark: what exchanging a method takes is no part of the step.
        self._watch_calls()
        self._mark(BEGIN)

    def batch_came(self) -> None:
        """A further one of the same step."""
        if self._at == BACKWARD and not self._backward_runs:
            self._at = BEGIN
            self._mark(BEGIN)
        else:
            self.spoil("a batch came between its forward and its backward")

    def entering(self, module: Any, given: tuple[Any, ...] = ()) -> bool:
        """True for the model itself, whose end shall be told."""
        if self._backward_runs:
            return False
        if self._inside is not None:
            if not self._read_precision and not module._modules:
                self._look_at_precision(module)
            return False
        if next(iter(module.parameters()), None) is None:
            return False
        learns = sys.modules["torch"].is_grad_enabled() and any(p.requires_grad for p in module.parameters())
        self._again_without_batch |= self._at == BACKWARD and learns
        self._mark(TRANSFER if self._at == BEGIN else LOSS)
        if learns and len(self._forwards) < MOST_MARKS:
            model = self._models.setdefault(id(module), len(self._models))
            self._forwards.append((model, leading_of(first_shape(given)), _now()))
        self._inside = module
        if self._read_precision or not learns:
            self._leave_calls_alone()
        elif not module._modules:
            self._look_at_precision(module)
        return True

    def left(self) -> None:
        self._inside = None
        self._at = FORWARD
        self._mark(FORWARD)
        if self.open:
            self._watch_calls()

    def failed(self) -> None:
        self.spoil("its forward raises an error")

    def backward_begins(self) -> None:
        self._backward_runs = True
        if self._inside is not None or self._at not in (FORWARD, BACKWARD):
            self.spoil("a backward without a module's forward before it")
        else:
            self._mark(LOSS)

    def backward_ended(self) -> None:
        self._backward_runs = False
        self._at = BACKWARD
        self._mark(BACKWARD)

    def stepped(self, number: int, *, is_last: bool, with_closure: bool) -> None:
        if self._inside is not None or self._backward_runs or self._at not in (BACKWARD, STEP):
            self.spoil("a step without a backward before it")
        elif with_closure and self._again_without_batch:
            self.spoil("an optimizer that runs the model several times within its step")
        else:
            self._at = STEP
            self._mark(STEP)
            if is_last and self.open and self._ended is None:
                self._ended = number, len(self._marks)

    def iteration_is_over(self) -> None:
        """The next batch has come: until then another model may have learnt, which steps more seldom."""
        if self._ended is not None:
            self._finish(*self._ended, whole=True)
        else:
            self.spoil("the optimizers take turns that differ from step to step")

    def spoil(self, because: str) -> None:
        if not self.open:
            return
        if self._ended is not None:
            # The step itself was as it should be.
            self._finish(*self._ended, whole=False)
            return
        self._close()
        self.spoiled += 1
        if self.spoiled >= SPOILED_AT_MOST and self.taken == 0:
            self._give_up(because)

    def abandon(self) -> None:
        """In a fork's child. The marks stay: destroying their events would ask a driver that the child cannot use."""
        calls = module_calls.of_modules()
        if self.open and calls is not None:
            calls.leave_alone()
        self.open = False

    def poll(self, now: float) -> None:
        while self._pending:
            number, index, marks, forwards = self._pending[0]
            if self.clock is not None and not _has_passed(self.clock, marks):
                return
            self._pending.popleft()
            self._write(number, index, marks, now)
            recorder.fact("forwards", step=number, forwards=forwards)

    def _write(self, number: int, index: int, marks: list[Mark], now: float) -> None:
        first = marks[0].event
        for mark in marks:
            device_s, peak = -1.0, mark.peak
            if first is not None:
                device_s = 0.0 if mark is marks[0] else first.elapsed_time(mark.event) / 1e3
            recorder.record(
                recorder.STAGE,
                recorder.MAIN_THREAD | (recorder.PEAK_KNOWN if peak is not None else 0),
                0 if first is None else index + 1,
                mark.stage,
                number,
                mark.host_s,
                now,
                device_s,
                (peak or 0) & 0xFFFFFFFF,
                (peak or 0) >> 32,
            )
        if self.clock is not None and first is not None:
            self.clock.give_back(*(mark.event for mark in marks))

    def _mark(self, stage: int) -> None:
        if not self.open:
            return
        event, peak = None, None
        if self.clock is not None:
            event = self.clock.mark()
            if event is None or int(self.clock.device.index_now()) != self.index or len(self._marks) >= MOST_MARKS:
                self.spoil("a graph is being captured, the device changes within a step, or too many batches make one")
                return
        host_s = _now()
        if self.clock is not None:
            peak = memory.cut(self.index)
        self._marks.append(Mark(stage, host_s, event, None if stage == BEGIN else peak))

    def _look_at_precision(self, module: Any) -> None:
        """In the first module that holds no other: an autocast that wraps only the forward is on by then."""
        self._read_precision = True
        self._tell_precision(self.clock, module)
        # The modules below need not be watched: they run as without us.
        self._leave_calls_alone()

    def _tell_precision(self, clock: Clock | None, module: Any) -> None:
        precision.tell(clock.device.kind if clock is not None else "cpu", module)

    def _finish(self, number: int, count: int, *, whole: bool) -> None:
        marks, self._marks = self._marks if whole else self._marks[:count], []
        self.taken += 1
        self._close()
        self.over = self.over or self.taken >= MOST
        self._pending.append((number, self.index, marks, self._forwards))
        self._forwards = []

    def _close(self) -> None:
        if self.open:
            self.open = False
            self._marks = []
            self._leave_calls_alone()

    def _watch_calls(self) -> None:
        calls = module_calls.of_modules()
        if calls is None or not calls.watch(self):
            self._leave_calls_alone()

    def _leave_calls_alone(self) -> None:
        calls = module_calls.of_modules()
        if calls is not None:
            calls.leave_alone()
        if calls is None or calls.is_lost:
            name = "__call__" if calls is None else calls.name
            self._give_up(f"the training replaces Module.{name} itself")

    def _give_up(self, because: str) -> None:
        if self.over:
            return
        self.over, self.open = True, False
        self._marks = []
        # What the samples before it told stays known.
        if self.taken == 0:
            devices.unknown("stages", because)
        if not self._read_precision:
            self._tell_precision(self.clock, None)


def _has_passed(clock: Clock, marks: list[Mark]) -> bool:
    if marks[0].event is None:
        return True
    return not clock.device.is_capturing() and all(mark.event.query() for mark in marks)
