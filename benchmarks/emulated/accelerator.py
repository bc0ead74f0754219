"""A stand-in for a GPU, as torch would show it: `torch.emulated`, and `torch.accelerator` saying that it is there.

It speaks only when a training script installs it, and never where a real accelerator is. Kernels are durations on a
timeline beside the CPU's own: launching returns at once, the device works them off one after the other. Memory is a
counter with peaks. Nothing is computed.

Where FAKE_NVML_STATE names a file, the driver's side of it is written there as well (see fake_nvml.c).
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict, deque
from types import ModuleType, SimpleNamespace
from typing import Any

NAME = "emulated"
# As torch tells it, without the driver's prefix; the fake driver's first device has the same.
UUID = "00000000-0000-0000-0000-000000000000"
DEVICE_NAME = "Emulated GPU"
# What an allocator asks the driver for at once.
SEGMENT = 2 * 2**20
CONTEXT = 300 * 2**20
# A driver's utilization is that of a past window, not of now.
UTILIZATION_OVER_S = 0.2
_now = time.monotonic


class Emulated:
    """The device itself."""

    def __init__(self, total_bytes: int, *, name: str = DEVICE_NAME, context_bytes: int = CONTEXT) -> None:
        if not name.startswith("Emulated"):
            raise ValueError(f'an emulated device says so: its name must begin with "Emulated", got "{name}"')
        self.name = name
        self.total_bytes = total_bytes
        # Taken by being opened, before anything is allocated.
        self.context_bytes = context_bytes
        self.is_open = False
        self.is_capturing = False
        self.free_at = 0.0
        self.fraction = 1.0
        self.splinters = 0
        # Kernels of the last while, as (begin, end).
        self.worked: deque[tuple[float, float]] = deque(maxlen=4096)
        self.stats = dict.fromkeys(("allocated", "allocated_peak", "reserved", "reserved_peak", "retries", "ooms"), 0)
        self.calls: dict[str, int] = {}
        self.lock = threading.Lock()

    def launch(self, seconds: float) -> None:
        """A kernel: it begins when those before it have ended."""
        self.is_open = True
        with self.lock:
            begin = max(_now(), self.free_at)
            self.free_at = begin + seconds
            self.worked.append((begin, self.free_at))

    def synchronize(self, *_: object) -> None:
        self.count("synchronize")
        while (left := self.free_at - _now()) > 0:
            time.sleep(left)

    def allocate(self, size: int) -> None:
        self.is_open = True
        stats = self.stats
        needed = -(-(stats["allocated"] + size) // SEGMENT) * SEGMENT
        if needed + self.splinters > stats["reserved"]:
            room = min(self.total_bytes - self.context_bytes, self.fraction * self.total_bytes)
            if needed + self.splinters > room:
                # What no request fits into is given back, and it is asked once more.
                stats["retries"] += 1
                self.splinters = 0
                self.empty_cache()
            if needed > room:
                stats["ooms"] += 1
                import torch

                taken = self.context_bytes + stats["reserved"]
                raise torch.OutOfMemoryError(
                    f"emulated out of memory on {self.name}: tried to allocate {size / 1e6:.0f} MB; of"
                    f" {self.total_bytes / 1e6:.0f} MB {taken / 1e6:.0f} MB are taken"
                    + (f", {self.fraction * self.total_bytes / 1e6:.0f} MB allowed" if self.fraction < 1 else "")
                )
            stats["reserved"] = needed + self.splinters
        stats["allocated"] += size
        stats["allocated_peak"] = max(stats["allocated_peak"], stats["allocated"])
        stats["reserved_peak"] = max(stats["reserved_peak"], stats["reserved"])

    def free(self, size: int) -> None:
        self.stats["allocated"] -= size

    def splinter(self, size: int) -> None:
        """Held by the allocator, in pieces that no request fits into: until it has to give them back."""
        self.splinters += size
        used = -(-self.stats["allocated"] // SEGMENT) * SEGMENT
        self.stats["reserved"] = max(self.stats["reserved"], used + self.splinters)
        self.stats["reserved_peak"] = max(self.stats["reserved_peak"], self.stats["reserved"])

    def set_fraction(self, fraction: float, device: object = None) -> None:
        """Of the whole device: what more is asked for runs out of memory, however much is free."""
        if not isinstance(fraction, float) or not 0 <= fraction <= 1:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
        self.is_open = True
        self.fraction = fraction

    def empty_cache(self) -> None:
        self.splinters = 0
        self.stats["reserved"] = -(-self.stats["allocated"] // SEGMENT) * SEGMENT

    def reset_peaks(self, device: object = None) -> None:
        self.count("reset_peak_memory_stats")
        self.stats["allocated_peak"], self.stats["reserved_peak"] = self.stats["allocated"], self.stats["reserved"]

    def memory_stats(self, device: object = None) -> OrderedDict[str, int]:
        self.count("memory_stats")
        stats = self.stats
        return OrderedDict(
            {
                "allocated_bytes.all.current": stats["allocated"],
                "allocated_bytes.all.peak": stats["allocated_peak"],
                "num_alloc_retries": stats["retries"],
                "num_ooms": stats["ooms"],
                "reserved_bytes.all.current": stats["reserved"],
                "reserved_bytes.all.peak": stats["reserved_peak"],
            }
        )

    def busy_share(self, now: float) -> float:
        begin = now - UTILIZATION_OVER_S
        with self.lock:
            worked = list(self.worked)
        return sum(max(0.0, min(end, now) - max(start, begin)) for start, end in worked) / UTILIZATION_OVER_S

    def count(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1


def event_class(device: Emulated) -> type:
    class Event:
        def __init__(self, enable_timing: bool = False) -> None:
            self._timed = enable_timing
            self._at: float | None = None
            device.count("Event")

        def record(self, stream: object = None) -> None:
            if device.is_capturing:
                raise RuntimeError("an event was recorded while a graph is being captured")
            device.count("record")
            self._at = max(_now(), device.free_at)

        def query(self) -> bool:
            device.count("query")
            if device.is_capturing:
                raise RuntimeError("an event was asked while a graph is being captured")
            return self._at is None or _now() >= self._at

        def elapsed_time(self, end: Any) -> float:
            if self._at is None or end._at is None or not self.query() or not end.query():
                raise RuntimeError("both events must be recorded and done")
            if not (self._timed and end._timed):
                raise RuntimeError("both events must be made with enable_timing=True")
            elapsed: float = (end._at - self._at) * 1e3
            return elapsed

        def synchronize(self) -> None:
            device.synchronize()

    return Event


def module_of(device: Emulated, without: tuple[str, ...] = ()) -> Any:
    """As torch has one for each kind of device; `without` are functions that this torch does not have."""
    module: Any = ModuleType(f"torch.{NAME}")
    module.Event = event_class(device)
    module.is_initialized = lambda: device.is_open
    module.is_available = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module.is_current_stream_capturing = lambda: device.is_capturing
    module.synchronize = device.synchronize
    module.memory_stats = device.memory_stats
    module.memory_allocated = lambda device_=None: device.stats["allocated"]
    module.memory_reserved = lambda device_=None: device.stats["reserved"]
    module.max_memory_allocated = lambda device_=None: device.stats["allocated_peak"]
    module.max_memory_reserved = lambda device_=None: device.stats["reserved_peak"]
    module.reset_peak_memory_stats = device.reset_peaks
    module.empty_cache = device.empty_cache
    module.set_per_process_memory_fraction = device.set_fraction
    module.get_per_process_memory_fraction = lambda device_=None: device.fraction
    module.mem_get_info = lambda device_=None: (
        device.total_bytes - device.context_bytes - device.stats["reserved"],
        device.total_bytes,
    )
    module.get_device_properties = lambda index: SimpleNamespace(
        name=device.name,
        uuid=UUID,
        total_memory=device.total_bytes,
        pci_domain_id=0,
        pci_bus_id=0x65,
        pci_device_id=0,
    )
    for name in without:
        delattr(module, name)
    return module


def install(
    *,
    total_bytes: int = 16 * 2**30,
    name: str = DEVICE_NAME,
    context_bytes: int = CONTEXT,
    without: tuple[str, ...] = (),
) -> Emulated:
    """Into the torch of this process."""
    import torch

    if real := real_accelerator():
        raise RuntimeError(f"the emulated accelerator is for machines without one, and {real} is here")
    device = Emulated(total_bytes, name=name, context_bytes=context_bytes)
    vars(torch)[NAME] = module_of(device, without)
    # torch's own functions know real kinds of devices only: a loader that pins asks all of these.
    vars(torch.accelerator).update(
        current_accelerator=lambda check_available=False: SimpleNamespace(type=NAME, index=None),
        is_available=lambda: True,
        device_count=lambda: 1,
        current_device_index=lambda: 0,
        set_device_index=lambda index: None,
    )
    tensor: Any = torch.Tensor
    tensor.pin_memory, tensor.is_pinned = _pinned, _is_pinned
    if path := os.environ.get("FAKE_NVML_STATE"):
        threading.Thread(target=_drive_nvml, args=(device, path), daemon=True).start()
    return device


def _pinned(tensor: Any, device: object = None) -> Any:
    """A copy, as it costs one; no page of it is locked."""
    copy = tensor.clone()
    copy.is_emulated_pinned = True
    return copy


def _is_pinned(tensor: Any, device: object = None) -> bool:
    return getattr(tensor, "is_emulated_pinned", False)


def real_accelerator() -> str | None:
    """As torch names the kind of it; None without one. Only asked of torch: no context is opened."""
    import torch

    for kind in ("cuda", "xpu", "mps"):
        is_available = getattr(getattr(torch, kind, None), "is_available", None)
        if is_available is not None and is_available():
            return f"torch.{kind}"
    return None


def _drive_nvml(device: Emulated, path: str) -> None:
    while True:
        time.sleep(0.05)
        used = device.context_bytes + device.stats["reserved"] if device.is_open else 0
        # Other lines (what the fake driver shall refuse, who else is there) stay as the test wrote them.
        util = round(100 * min(1.0, device.busy_share(_now())))
        ours = {
            "gpu0.util": util,
            "gpu0.used": used,
            "gpu0.procs": f"{os.getpid()}:{used}:{util}",
            # Killed, this process cannot take its lines back.
            "gpu0.while_alive": os.getpid(),
        }
        try:
            with open(path) as file:
                others = [line for line in file.read().splitlines() if line.split(" ")[0] not in ours]
        except FileNotFoundError:
            others = []
        beside = f"{path}.{os.getpid()}"
        with open(beside, "w") as file:
            file.write("\n".join([*others, *(f"{name} {value}" for name, value in ours.items())]) + "\n")
        os.replace(beside, path)
