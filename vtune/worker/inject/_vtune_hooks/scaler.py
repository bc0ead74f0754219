"""Steps that a gradient scaler leaves out because of infinities: iterations like the others, and counted."""

from __future__ import annotations

import functools
import inspect
import time
from types import ModuleType
from typing import Any

from _vtune_hooks import devices, recorder, steps
from _vtune_hooks.frames import leave_out_of_traceback, unseen

TELL_EVERY_S = 1.0

_now = time.monotonic


class _State:
    def __init__(self) -> None:
        self.skipped = 0
        self.told: int | None = None
        self.told_s = -1e9
        self.is_blind = False


_state = _State()


def _start_afresh() -> None:
    global _state
    _state = _State()


def placed(module: ModuleType) -> None:
    """After torch.amp.grad_scaler has run."""
    owner = getattr(module, "GradScaler", None)
    original = vars(owner).get("step") if isinstance(owner, type) else None
    if not inspect.isfunction(original):
        recorder.problem("torch.amp has no GradScaler.step: left out steps are not seen")
        return
    wrapper: Any = _stepping(original)
    wrapper.__signature__ = inspect.signature(original)
    setattr(owner, "step", wrapper)  # noqa: B010


def _stepping(original: Any) -> Any:
    @unseen
    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = steps.counted()
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            leave_out_of_traceback(error)
            raise
        if not recorder.here.silent:
            left_out = _look(self, args[0] if args else kwargs.get("optimizer"), steps.counted() != before)
            if left_out is not None:
                # May end the training, as any other step.
                steps.after_step(left_out, (), {}, left_out=True)
        return result

    return step


def _look(scaler: Any, optimizer: Any, has_stepped: bool) -> Any:
    """The optimizer, where it was not even called."""
    try:
        state = _state
        if not scaler.is_enabled():
            return None
        skipped = not has_stepped
        if has_stepped and getattr(optimizer, "_step_supports_amp_scaling", False):
            # Called in any case: its own kernel leaves the parameters alone. Asking a device whether it did would wait.
            found = list(scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values())
            if all(one.device.type == "cpu" for one in found):
                skipped = any(bool(one.item()) for one in found)
            elif not state.is_blind:
                state.is_blind = True
                devices.unknown("left out steps", "a fused optimizer leaves them out within its own kernel")
        state.skipped += skipped
        if state.told is None or (state.skipped != state.told and _now() - state.told_s >= TELL_EVERY_S):
            tell()
        return optimizer if not has_stepped else None
    except Exception as error:
        recorder.problem(f"a scaler's step: {error!r}")
        return None


def tell() -> None:
    state = _state
    state.told, state.told_s = state.skipped, _now()
    recorder.fact("scaler", skipped=None if state.is_blind else state.skipped)


def _tell_at_the_end() -> None:
    if _state.told is not None and _state.told != _state.skipped:
        tell()


recorder.in_each_child.append(_start_afresh)
recorder.before_the_end.append(_tell_at_the_end)
