"""Steps that a gradient scaler leaves out because of infinities: iterations like the others, and counted."""

from __future__ import annotations

import inspect
import time
from types import ModuleType
from typing import Any

from _vtune_hooks import devices, recorder, steps
from _vtune_hooks.frames import around

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
    wrapper: Any = around(original, before=_before_a_step, after=_after_a_step)
    wrapper.__signature__ = inspect.signature(original)
    setattr(owner, "step", wrapper)  # noqa: B010


def _before_a_step(args: Any, kwargs: Any) -> int:
    return steps.counted()


def _after_a_step(result: Any, before: int, args: Any, kwargs: Any) -> Any:
    if not recorder.here.silent:
        scaler, *rest = args or (kwargs.get("self"),)
        left_out = _look(scaler, rest[0] if rest else kwargs.get("optimizer"), steps.counted() != before)
        if left_out is not None:
            # Not called, and an iteration all the same; it may end the training, as any other step.
            steps.after_step(left_out, (), {})
    return result


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
