"""Whether the parameters are still numbers, looked at now and then after an optimizer's step.

Of three small parameters that have learnt something, the first values: a loss that is not a number makes all of them
so. Those on the CPU are read where they lie, without asking torch for anything. Those on a device are copied behind the
step, and looked at when the device has passed the copy; nobody waits for it. Steps that a gradient scaler leaves out
change no parameter. The part for devices has not yet run on a GPU.
"""

from __future__ import annotations

import ctypes
import math
import struct
import sys
from typing import TYPE_CHECKING, Any

from _vtune_hooks import recorder

if TYPE_CHECKING:
    from _vtune_hooks.steps import OptimizerSeen

LOOK_EVERY_S = 0.25
# In a full run.
LOOK_SELDOM_S = 5.0
# The first steps are where a wrong rate shows, and may be all that there are.
FIRST_STEPS = 4
PARAMETERS = 3
CHOICES = 3
VALUES = 16
FORMATS = {"torch.float32": ("f", 4), "torch.float64": ("d", 8), "torch.float16": ("e", 2), "torch.bfloat16": ("H", 2)}
# All bits of its exponent set: a bfloat16 that is no finite number.
BFLOAT16_EXPONENT = 0x7F80


class Watched:
    """The parameters of one optimizer."""

    def __init__(self) -> None:
        self.look_s = 0.0
        self.chosen: list[Any] = []
        # Copies on their way: the device's event, what is copied, and the step they are of.
        self.pending: tuple[Any, list[Any], int] | None = None
        self.finite = True
        self.choices = 0
        self.failed = False


def stepped(seen: OptimizerSeen, optimizer: Any, number: int, now: float) -> None:
    watched = seen.finite
    if watched is None:
        watched = seen.finite = Watched()
    if watched.failed or (now < watched.look_s and number >= FIRST_STEPS):
        return
    watched.look_s = now + (LOOK_SELDOM_S if recorder.here.light else LOOK_EVERY_S)
    try:
        # A script may watch all calls of torch's, the default device among it.
        with sys.modules["torch"]._C.DisableTorchFunction():
            _look(watched, seen.number, optimizer, number)
    except Exception as error:
        watched.failed = True
        recorder.problem(f"whether the parameters are numbers: {error!r}")


def _look(watched: Watched, optimizer_number: int, optimizer: Any, number: int) -> None:
    _take_in(watched, optimizer_number)
    if not watched.chosen:
        watched.chosen = choose(optimizer)
        watched.choices += 1
        # Gradients that are gone before the step ends: looking through all parameters again and again would be felt.
        watched.failed = not watched.chosen and watched.choices == CHOICES
    here = [one for one in watched.chosen if one.device.type == "cpu"]
    if here:
        # Scripts may lay them elsewhere: an expanded one has fewer bytes than values.
        whole = [one for one in here if one.is_contiguous()]
        if whole:
            _judge(watched, optimizer_number, number, [value_of(one) for one in whole])
    elif watched.chosen and watched.pending is None:
        watched.pending = _copies(watched.chosen, number)


def choose(optimizer: Any) -> list[Any]:
    """Plain ones only: what stands for tensors elsewhere (sharded, lazy) may talk to other ranks when it is asked."""
    torch = sys.modules["torch"]
    plain = (torch.Tensor, torch.nn.Parameter)
    found = [
        parameter
        for group in optimizer.param_groups
        for parameter in group["params"]
        if type(parameter) in plain
        and parameter.grad is not None
        and str(parameter.dtype) in FORMATS
        and parameter.layout is torch.strided
        and parameter.numel() > 0
        and parameter.is_contiguous()
    ]
    return sorted(found, key=lambda parameter: parameter.numel())[:PARAMETERS]


def value_of(tensor: Any) -> str | None:
    """`nan` or `inf` if there is one among the first values; None when they are numbers."""
    kind, size = FORMATS[str(tensor.dtype)]
    count = min(VALUES, tensor.numel())
    address = tensor.data_ptr()
    if not address:  # its memory was taken away meanwhile
        return None
    values = struct.unpack(f"{count}{kind}", ctypes.string_at(address, count * size))
    if kind == "H":
        bits = [bit for bit in values if bit & BFLOAT16_EXPONENT == BFLOAT16_EXPONENT]
        return None if not bits else "nan" if any(bit & 0x7F for bit in bits) else "inf"
    wrong = [value for value in values if not math.isfinite(value)]
    return None if not wrong else "nan" if any(map(math.isnan, wrong)) else "inf"


def _copies(parameters: list[Any], number: int) -> tuple[Any, list[Any], int] | None:
    torch = sys.modules["torch"]
    module = getattr(torch, parameters[0].device.type, None)
    if getattr(module, "is_current_stream_capturing", bool)() or torch._C._len_torch_dispatch_stack():
        return None  # it would become part of the script's graph, or be seen by what looks at all of its calls
    with torch.no_grad():
        there = [one.detach().view(-1)[:VALUES] for one in parameters if one.device == parameters[0].device]
        here = [torch.empty(one.shape, dtype=one.dtype, device="cpu", pin_memory=True) for one in there]
        for source, target in zip(there, here):  # noqa: B905 - Python 3.10 reads it, and both have one length
            target.copy_(source, non_blocking=True)
    event = module.Event()  # type: ignore[union-attr]
    event.record()
    return event, here, number


def _take_in(watched: Watched, optimizer_number: int) -> None:
    if watched.pending is None:
        return
    event, copies, number = watched.pending
    if event.query():
        watched.pending = None
        _judge(watched, optimizer_number, number, [value_of(one) for one in copies])


def _judge(watched: Watched, optimizer_number: int, number: int, values: list[str | None]) -> None:
    wrong = next((value for value in values if value is not None), None)
    if (wrong is None) != watched.finite:
        watched.finite = wrong is None
        recorder.fact("finite", finite=watched.finite, optimizer=optimizer_number, step=number, value=wrong)
