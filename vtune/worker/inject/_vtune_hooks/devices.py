"""The device that the training computes on, as torch offers it: found once the training itself has opened it.

Nothing here imports torch or opens a device. Not yet run on a GPU.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from _vtune_hooks import recorder

# Of each of ours that wraps one of torch's functions: the function itself.
ORIGINAL = "_vtune_original"
VISIBLE = {"cuda": ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"), "xpu": ("ZE_AFFINITY_MASK",)}


class Device:
    """What torch's module for one kind of device can do; a function that is missing leaves its metric unknown."""

    def __init__(self, kind: str, module: Any) -> None:
        self.kind = kind
        self.module = module
        self.make_event = getattr(module, "Event", None)
        self.index_now: Callable[[], int] = getattr(module, "current_device", _the_only_one)
        self.is_capturing: Callable[[], bool] = getattr(module, "is_current_stream_capturing", _never)
        # The nested form is what the allocator hands out; the flat one is made of it at ten times the cost.
        self.stats = original_of(module, "memory_stats_as_nested_dict") or original_of(module, "memory_stats")
        self.reset_peaks = original_of(module, "reset_peak_memory_stats")

    def count(self) -> int:
        try:
            return min(int(self.module.device_count()), 64)
        except Exception:
            return int(self.index_now()) + 1


def original_of(module: Any, name: str) -> Any:
    function = getattr(module, name, None)
    return getattr(function, ORIGINAL, function)


def find() -> Device | None:
    """None as long as the training has not opened a device."""
    torch = sys.modules.get("torch")
    for kind in ("cuda", "xpu"):
        module = getattr(torch, kind, None)
        if _is_open(module):
            return Device(kind, module)
    version = getattr(torch, "version", None)
    if any(getattr(version, name, None) for name in ("cuda", "hip", "xpu")):
        # Such a build has no other accelerator, and asking an early torch which one it has may count devices, after
        # which a forked child cannot open one.
        return None
    ask = getattr(getattr(torch, "accelerator", None), "current_accelerator", None)
    other = getattr(ask() if ask is not None else None, "type", None)
    module = getattr(torch, other, None) if isinstance(other, str) else None
    return Device(str(other), module) if _is_open(module) else None


def tell(device: Device, index: int) -> None:
    """Which one it is: by its UUID, for torch's number is not the driver's."""
    properties = _asked(getattr(device.module, "get_device_properties", None), index)
    uuid = getattr(properties, "uuid", None)
    recorder.fact(
        "device",
        device=index,
        type=device.kind,
        name=getattr(properties, "name", None),
        uuid=None if uuid is None else str(uuid),
        total_bytes=getattr(properties, "total_memory", None),
        backend=_backend(device.kind),
        pci=_pci_address(properties),
        visible=next((os.environ[name] for name in VISIBLE.get(device.kind, ()) if name in os.environ), None),
    )


def unknown(what: str, because: str) -> None:
    """A metric that this torch, or this training, does not let us see: told once."""
    key = f"unknown {what}"
    if key not in recorder.here.problems:
        recorder.here.problems.add(key)
        recorder.fact("unknown", what=what, because=because)


def _is_open(module: Any) -> bool:
    is_initialized = getattr(module, "is_initialized", None)
    return is_initialized is not None and bool(is_initialized())


def _asked(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except Exception:
        return None


def _backend(kind: str) -> str | None:
    version = getattr(sys.modules.get("torch"), "version", None)
    names = {"cuda": (("hip", "ROCm"), ("cuda", "CUDA")), "xpu": (("xpu", "XPU"),)}.get(kind, ())
    return next((f"{name} {getattr(version, of)}" for of, name in names if getattr(version, of, None)), None)


def _pci_address(properties: Any) -> str | None:
    parts = [getattr(properties, f"pci_{name}_id", None) for name in ("domain", "bus", "device")]
    if not all(isinstance(part, int) for part in parts):
        return None
    return f"{parts[0]:04x}:{parts[1]:02x}:{parts[2]:02x}.0"


def _the_only_one() -> int:
    return 0


def _never() -> bool:
    return False
