"""Every optimizer step, in the global hook that torch calls after it; the place where a trial ends."""

from __future__ import annotations

import contextlib
import sys
import time
from types import ModuleType
from typing import Any

from _vtune_hooks import ending, finite, own_modules, recorder
from _vtune_hooks.attached import Attached
from _vtune_hooks.identity import place_of_caller
from _vtune_hooks.moments import moments

_now = time.monotonic


class OptimizerSeen:
    def __init__(self, number: int, parameters: int) -> None:
        self.number = number
        self.steps = 0
        self.parameters = parameters
        self.finite: finite.Watched | None = None


_seen: Attached[OptimizerSeen] = Attached()
_met = [0]


def _start_afresh() -> None:
    global _seen
    _seen = Attached()
    _met[0] = 0


recorder.in_each_child.append(_start_afresh)


def placed(module: ModuleType) -> None:
    """After torch.optim.optimizer has run."""
    register = vars(module).get("register_optimizer_step_post_hook")
    if not callable(register):
        recorder.problem("torch.optim.optimizer has no global step hook: steps are not seen")
        return
    register(after_step)


def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    ended = _now()
    if recorder.here.silent:
        return
    try:
        seen = _seen.get(optimizer)
        if seen is None:
            seen = _meet(optimizer)
        number = seen.steps
        seen.steps = number + 1
        moments.steps += 1
        flags = 0
        if recorder.is_main_thread():
            flags = recorder.MAIN_THREAD
            if moments.active or ended >= moments.look_s:
                moments.stepped(seen, ended, args, kwargs)
            finite.stepped(seen, optimizer, number, ended)
        recorder.record(recorder.STEP, flags, seen.number, 0, number, 0.0, ended, 0.0, 0, 0)
        asked_to_end = ending.is_asked(ended)
    except Exception as error:
        recorder.problem(f"a step: {error!r}")
        return
    if asked_to_end:
        # Raises SystemExit.
        ending.end_after(seen, _seen.values())


# Dynamo reads this name: a compiled step calls the hook instead of tracing it.
after_step._torchdynamo_disable = True  # type: ignore[attr-defined]


def counted() -> int:
    """Steps of all optimizers so far."""
    return moments.steps


def _meet(optimizer: Any) -> OptimizerSeen:
    seen = OptimizerSeen(_met[0], _count_parameters(optimizer))
    _met[0] += 1
    _seen.set(optimizer, seen)
    recorder.fact(
        "optimizer",
        optimizer=seen.number,
        parameters=seen.parameters,
        where=place_of_caller(sys._getframe()).where,
        **{"class": type(optimizer).__name__},
    )
    if seen.number == 0:
        own_modules.tell()
    return seen


def _count_parameters(optimizer: Any) -> int:
    count = 0
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            with contextlib.suppress(Exception):  # not yet materialized
                count += int(parameter.numel())
    return count
