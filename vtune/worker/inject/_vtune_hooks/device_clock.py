"""A step on the device's own clock: events on its stream, asked late whether it has passed them, never waited for.

An iteration: the batch has come (`marker`), the optimizer has stepped (`end`). The time between the end before and the
marker is the gap; with several batches a step, the waits for the later ones are taken out of the step and added to it.
Not yet run on a GPU.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from _vtune_hooks import devices, recorder
from _vtune_hooks.devices import Device

# Steps that the device may be behind. A training that runs further ahead than this is not seen rather than waited for.
MOST_PENDING = 64
# Waits for further batches within one step; a step that accumulates more of them is not timed.
MOST_WAITS = 16
# More than the one that each step adds, so that a backlog shrinks; not more, so that no step pays for many.
POLLED_A_STEP = 2


class Iteration:
    """Events of one step; `before` is the end of the one before it, where that is known."""

    def __init__(self, before: Any, marker: Any, index: int) -> None:
        self.before = before
        self.marker = marker
        self.index = index
        self.waits: list[tuple[Any, Any]] = []
        self.end: Any = None
        self.optimizer = 0
        self.number = 0
        self.steps = 0

    def events(self) -> list[Any]:
        between = [event for pair in self.waits for event in pair]
        return [event for event in (self.end, self.marker, *between, self.before) if event is not None]


class Clock:
    def __init__(self, device: Device) -> None:
        self.device = device
        self._free: list[Any] = []
        self._pending: deque[Iteration] = deque()
        self._current: Iteration | None = None
        self._asked: Any = None
        # The end of the step before, and torch's number of the device that it was on.
        self._last: tuple[Any, int] | None = None

    def mark(self) -> Any:
        """An event on the current stream, now; None where nothing may be recorded."""
        if self.device.is_capturing():
            # It would become part of the script's graph.
            return None
        event = self._free.pop() if self._free else self.device.make_event(enable_timing=True)  # type: ignore[misc]
        event.record()
        return event

    def give_back(self, *events: Any) -> None:
        self._free += events

    def batch_came(self, *, after_another: bool) -> None:
        """The first of a new iteration, or one that takes its place because nothing was computed from it."""
        index = int(self.device.index_now())
        before = None
        if self._current is not None:
            # Whatever came between the two (a validation) is neither step nor gap.
            before = None if after_another else self._current.before
            self.give_back(self._current.marker)
        elif self._last is not None and self._last[1] == index and not after_another:
            before = self._last[0]
        marker = self.mark()
        self._current = None if marker is None else Iteration(before, marker, index)
        self._asked = None
        if marker is None:
            self._last = None

    def next_is_asked(self) -> None:
        """For a further batch of the same step."""
        if self._current is not None:
            self._asked = self.mark()

    def further_batch_came(self) -> None:
        current, asked = self._current, self._asked
        if current is None:
            return
        came = self.mark() if asked is not None and len(current.waits) < MOST_WAITS else None
        self._asked = None
        if came is None:
            self._forget()
        else:
            current.waits.append((asked, came))

    def step_ended(self, optimizer: int, number: int) -> None:
        current = self._current
        if current is None:
            return
        if current.end is not None:
            self.give_back(current.end)
        current.end = self.mark()
        current.steps += 1
        current.optimizer, current.number = optimizer, number
        if current.end is None or int(self.device.index_now()) != current.index:
            self._forget()

    def iteration_is_over(self, *, as_expected: bool) -> None:
        current = self._current
        self._current = None
        if current is None or current.end is None or not as_expected:
            self._last = None
            return
        self._last = current.end, current.index
        # Several steps with one batch are not one step. What is not kept lets its events go, but for the end, at which
        # the next one's gap begins.
        if current.steps == 1 and len(self._pending) < MOST_PENDING:
            self._pending.append(current)

    def poll(self, now: float, *, at_most: int = POLLED_A_STEP) -> None:
        for _ in range(at_most):
            if not self._pending or self.device.is_capturing():
                return
            oldest = self._pending[0]
            if not all(event.query() for event in oldest.events()):
                return
            self._pending.popleft()
            self._write(oldest, now)

    def _write(self, done: Iteration, now: float) -> None:
        waits_ms = sum(asked.elapsed_time(came) for asked, came in done.waits)
        busy_s = (done.marker.elapsed_time(done.end) - waits_ms) / 1e3
        gap_s = -1.0 if done.before is None else (done.before.elapsed_time(done.marker) + waits_ms) / 1e3
        recorder.record(
            recorder.DEVICE_STEP, recorder.MAIN_THREAD, done.index, 0, done.number, busy_s, now, gap_s,
            done.optimizer, 0,
        )  # fmt: skip
        # Its end is the `before` of the next one.
        self.give_back(*(event for event in done.events() if event is not done.end))

    def _forget(self) -> None:
        self._current = None
        self._last = None


def clock_of(device: Device) -> Clock | None:
    for name in ("record", "query", "elapsed_time"):
        if not hasattr(device.make_event, name):
            devices.unknown("device steps", f"torch.{device.kind} has no Event.{name}")
            return None
    return Clock(device)
