"""The moments of a step, in their order: a batch came, backwards, the optimizer stepped. Here they meet the device.

Only those of the main thread: batches and steps of other threads have no order that could be relied on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from _vtune_hooks import device_clock, devices, memory, passes, recorder, vram_limit
from _vtune_hooks.device_clock import Clock
from _vtune_hooks.devices import Device
from _vtune_hooks.evaluations import Evaluations
from _vtune_hooks.stages import Stages
from _vtune_hooks.validation import Validation

if TYPE_CHECKING:
    from _vtune_hooks.steps import OptimizerSeen

LOOK_FOR_A_DEVICE_EVERY_S = 0.25
# Two loaders that are asked one right after the other feed one step; a validation takes longer.
AT_ONCE_S = 0.002


class Moments:
    """One for the process; what it knows is thrown away in a fork's child."""

    def __init__(self) -> None:
        # A parent's events must not be destroyed in its child, whose driver is not usable.
        self._left_behind: list[Any] = []
        self._clock: Clock | None = None
        self._stages = Stages()
        self._evaluations = Evaluations()
        self.start_afresh()

    def start_afresh(self) -> None:
        self._stages.abandon()
        self._evaluations.leave_alone()
        self._left_behind.append((self._clock, self._stages))
        # Read by the hooks before they call: nothing of a batch or a backward matters otherwise.
        self.active = True
        # Else a device is looked for now and then.
        self.look_s = 0.0
        # Of all optimizers, counted by their hook.
        self.steps = 0
        # Read by the loaders' hook before a batch is asked for.
        self.asks = False
        self._device: Device | None = None
        self._clock = None
        self._stages = Stages()
        # A full run is looked at from further away: no step closely, and none on the device's clock, for whose events a
        # run far ahead of its device would wait.
        self._stages.over = recorder.here.light
        self._evaluations = Evaluations()
        self._validation = Validation()
        self._returned_s = 0.0
        self._batch_is_there = False
        self._used = False
        self._mixed = False
        # The optimizer that stepped last, and the one whose step ended the iteration before.
        self._last: OptimizerSeen | None = None
        self._closing: OptimizerSeen | None = None

    def look_at_no_step_closely(self) -> None:
        """Where the steps are not those of the training as it is, and each one's time matters."""
        self._stages.over = self._evaluations.over = True

    def batch_is_asked(self) -> None:
        if not recorder.is_main_thread():
            return
        try:
            if self._clock is not None:
                self._clock.next_is_asked()
        except Exception as error:
            self._switch_off(error)

    def batch_is_of(
        self, found: passes.Pass, shape: tuple[Any, ...] | None, asked: float, returned: float, *, grad: bool
    ) -> None:
        """Said before `batch_came`."""
        try:
            if vram_limit.is_due(returned):
                vram_limit.look(returned)
            self._evaluations.batch_came(asked, returned)
            self._validation.batch_came(found, shape, asked, returned, grad)
            if self._validation.lasts() and memory.is_due(returned):
                memory.tell(returned, self.steps, all_of_them=False)
        except Exception as error:
            self._switch_off(error)

    def batch_came(self, asked: float, returned: float) -> None:
        try:
            if self._used and self._last is None:
                if self._clock is not None:
                    self._clock.further_batch_came()
                if self._stages.open:
                    self._stages.batch_came()
            else:
                self._begin(asked)
        except Exception as error:
            self._switch_off(error)
        self._returned_s = returned

    def backward_begins(self) -> None:
        try:
            now = recorder._now()
            if vram_limit.is_due(now):
                vram_limit.look(now)
            self._validation.backward_begins(now)
            if self._batch_is_there:
                self._used = True
                self.asks = self._clock is not None
            if self._stages.open:
                self._stages.backward_begins()
        except Exception as error:
            self._switch_off(error)

    def backward_ended(self) -> None:
        try:
            if self._stages.open:
                self._stages.backward_ended()
        except Exception as error:
            self._switch_off(error)

    def stepped(self, seen: OptimizerSeen, now: float, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            self._stepped(seen, now, bool(args or kwargs.get("closure") is not None))
        except Exception as error:
            self._switch_off(error)

    def end(self) -> None:
        """The process is about to leave: what the device has passed is told, and how much it held."""
        if recorder.here.silent:
            return
        try:
            now = recorder._now()
            # Also without a step: the first may have run out of memory. Who never met torch's loaders trains nothing.
            if self._device is None and recorder.here.greeted:
                self._look_for_a_device(now)
            self._end_iteration()
            if self._clock is not None:
                self._clock.poll(now, at_most=device_clock.MOST_PENDING)
            self._stages.poll(now)
            self._validation.end(now)
            memory.tell(now, self.steps, all_of_them=True)
        except Exception as error:
            self._switch_off(error)

    def _begin(self, asked: float) -> None:
        after_another = self._batch_is_there and self._last is None and asked - self._returned_s > AT_ONCE_S
        self._mixed = (self._mixed and self._last is None) or after_another
        if self._last is not None:
            self._end_iteration()
        if self._clock is not None:
            self._clock.batch_came(after_another=self._mixed)
        self._batch_is_there, self._used, self.asks = True, False, False
        closing = self._closing
        if self._stages.open or (closing is not None and self._stages.is_wanted(closing.steps)):
            self._stages.begin(self._clock)

    def _end_iteration(self) -> None:
        """Its last step is the one that no other followed; with several optimizers, the same one as last time."""
        last = self._last
        if last is None:
            return
        if self._clock is not None:
            self._clock.iteration_is_over(as_expected=last is self._closing)
        if self._stages.open:
            self._stages.iteration_is_over()
        self._closing, self._last = last, None

    def _stepped(self, seen: OptimizerSeen, now: float, with_closure: bool) -> None:
        if self._device is None and now >= self.look_s:
            self._look_for_a_device(now)
        is_last = seen is self._closing
        if self._clock is not None and is_last:
            self._clock.step_ended(seen.number, seen.steps - 1)
        if self._stages.open:
            self._stages.stepped(seen.steps - 1, is_last=is_last, with_closure=with_closure)
        self._evaluations.stepped(now, may_look=not self._stages.open)
        self._last = seen
        self.asks = False
        self._stages.poll(now)
        if vram_limit.is_due(now):
            vram_limit.look(now)
        if self._device is not None:
            if self._clock is not None:
                self._clock.poll(now)
            if memory.is_due(now) or self.steps & (self.steps - 1) == 0:
                memory.tell(now, self.steps, all_of_them=False)
        self.active = self._device is not None or not (self._stages.over and self._evaluations.over)

    def _look_for_a_device(self, now: float) -> None:
        self.look_s = now + LOOK_FOR_A_DEVICE_EVERY_S
        device = devices.find()
        if device is None:
            return
        memory.use(device)
        if not memory.is_used(device):
            return
        self._device = device
        self._clock = None if recorder.here.light else device_clock.clock_of(device)
        self.active = True

    def _switch_off(self, error: Exception) -> None:
        recorder.problem(f"the device is no longer watched: {error!r}")
        self._stages.abandon()
        self._evaluations.leave_alone()
        self._left_behind.append((self._clock, self._stages))
        self._clock, self._stages, self._validation = None, Stages(), Validation()
        self._stages.over = self._evaluations.over = True
        self.asks = False


moments = Moments()
recorder.in_each_child.append(moments.start_afresh)
recorder.before_the_end.append(moments.end)
