"""What NVIDIA's driver tells of its devices: a thin reading of NVML. Whatever fails says why, one metric at a time.

NVML opens no context: nothing here takes memory on a device.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from vtune.domain.machine import Gpu, bare_uuid
from vtune.telemetry.nvml_device import TOO_OLD, Device, DeviceProcess, Unreadable

T = TypeVar("T")

LIBRARY = "libnvidia-ml.so.1"
# Without persistence mode the driver wakes every device first, and that takes seconds.
ANSWER_WITHIN_S = 10.0

NO_DRIVER = f"no NVIDIA driver here ({LIBRARY} was not found)"
HANGS = "the NVIDIA driver hangs: an earlier call never came back"
_REASONS = {
    1: "the driver's library was closed",
    2: "the driver does not take such a question for this device",
    3: "not supported by this device",
    4: "not permitted for this user",
    9: "the NVIDIA driver is not loaded",
    10: "the driver did not answer in time",
    12: NO_DRIVER,
    15: "the GPU is lost: the driver cannot reach it any more",
    16: "the GPU needs a reset",
    18: "the NVIDIA driver and its library are of different versions: reboot, or restart the container",
}
_hanging: list[threading.Thread] = []
_opened: list[Driver] = []


class NoDriver(Exception):
    """Nothing can be read at all; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNow:
    gpu: Gpu
    used_bytes: int | None = None
    reserved_bytes: int | None = None
    util_percent: float | None = None
    processes: tuple[DeviceProcess, ...] | None = None
    power_w: float | None = None
    temperature_c: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Slices of a divided device (MIG) stand in its place."""

    devices: tuple[DeviceNow, ...] = ()
    driver: str | None = None
    # The newest CUDA that this driver can run.
    cuda: str | None = None
    # Why nothing can be read; None when something could.
    why_none: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.gpu.name or "unknown GPU" for one in self.devices)


def devices(timeout_s: float = ANSWER_WITHIN_S) -> Devices:
    """All devices as they are now; returns in time also when the driver hangs."""
    return ask_for_devices()(timeout_s)


def ask_for_devices() -> Callable[[float], Devices]:
    """Asks now; the answer is had by calling what is returned, which waits until so many seconds after the asking."""
    if hangs():
        return lambda timeout_s: Devices(why_none=HANGS)
    found: list[Devices] = []
    asking = threading.Thread(target=lambda: found.append(_devices_now()), name="vtune-gpus-once", daemon=True)
    begun_s = time.monotonic()
    asking.start()

    def answer(timeout_s: float) -> Devices:
        asking.join(max(0.0, begun_s + timeout_s - time.monotonic()))
        if found:
            return found[0]
        left_hanging(asking)
        return Devices(why_none=f"the NVIDIA driver did not answer within {timeout_s:g} s")

    return answer


def left_hanging(thread: threading.Thread) -> None:
    """Its call never came back. Another thread would only hang beside it."""
    _hanging.append(thread)


def hangs() -> bool:
    _hanging[:] = [thread for thread in _hanging if thread.is_alive()]
    return bool(_hanging)


def _devices_now() -> Devices:
    try:
        asked = driver()
        found = asked.devices()
    except NoDriver as error:
        return Devices(why_none=str(error))
    return Devices(
        devices=tuple(_device_now(one) for one in found),
        driver=asked.version,
        cuda=asked.cuda,
        why_none=None if found else "the NVIDIA driver shows no device",
    )


def _device_now(device: Device) -> DeviceNow:
    unknown = dict(device.gpu.unknown)

    def ask(metric: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except Unreadable as error:
            # Of a device that is lost it is said once.
            unknown.setdefault("device" if error.lost else metric, device.reason(error))
            return None

    memory = ask("memory", device.memory)
    util, processes = ask("utilization", device.utilization_now), ask("processes", device.processes)
    power, temperature = ask("power", device.power_w), ask("temperature", device.temperature_c)
    return DeviceNow(
        gpu=device.describe(memory, unknown),
        used_bytes=memory.used_bytes if memory else None,
        reserved_bytes=memory.reserved_bytes if memory else None,
        util_percent=util,
        processes=processes,
        power_w=power,
        temperature_c=temperature,
    )


def driver() -> Driver:
    """One for this process. What failed to open is tried anew."""
    if not _opened:
        _opened.append(Driver())
    return _opened[-1]


class Driver:
    """NVML, never closed: each opening wakes the devices anew."""

    def __init__(self) -> None:
        try:
            ctypes.CDLL(LIBRARY)  # before the import below, which is dear and useless without it
        except OSError:
            raise NoDriver(NO_DRIVER) from None
        try:
            import pynvml
        except ImportError:
            raise NoDriver("the package nvidia-ml-py is not installed") from None
        self._nvml = pynvml
        self.version: str | None = None
        try:
            self.call("nvmlInit")
        except Unreadable as error:
            raise NoDriver(str(error)) from None
        self.version = self._text("nvmlSystemGetDriverVersion")
        self.cuda = self._cuda()

    def devices(self) -> list[Device]:
        """In the driver's order. A device that does not answer is there, with the reason."""
        try:
            count = self.call("nvmlDeviceGetCount")
        except Unreadable as error:
            raise NoDriver(f"the NVIDIA driver does not list its devices: {error}") from None
        found = []
        for index in range(count):
            try:
                handle = self.call("nvmlDeviceGetHandleByIndex", index)
            except Unreadable as error:
                found.append(Device(self.call, None, Gpu(index=index, uuid="", unknown={"device": str(error)})))
                continue
            found += self._slices(index, handle) or [self._device(index, handle)]
        return found

    def find(self, uuid: str) -> Device | None:
        """By the name that torch gives it, which lacks the driver's prefix."""
        bare = bare_uuid(uuid)
        for name in (f"GPU-{bare}", f"MIG-{bare}", uuid):
            try:
                handle = self.call("nvmlDeviceGetHandleByUUID", name)
                index = self.call("nvmlDeviceGetIndex", handle)
            except Unreadable:
                continue
            return self._device(index, handle)
        return None

    def call(self, name: str, *arguments: object) -> Any:
        """Any answer but success becomes an Unreadable with its reason."""
        function = getattr(self._nvml, name, None)
        if function is None:
            raise Unreadable("the installed nvidia-ml-py is too old for it", code=TOO_OLD)
        try:
            return function(*arguments)
        except self._nvml.NVMLLibraryMismatchError:
            raise Unreadable(self._too_old(), code=TOO_OLD) from None
        except self._nvml.NVMLError as error:
            code = int(error.value)
            reason = self._too_old() if code == TOO_OLD else _REASONS.get(code)
            raise Unreadable(reason or f"the driver answered: {error} ({code})", code=code) from None
        except Exception as error:  # a library that answers what it never should: this metric's trouble, nobody else's
            raise Unreadable(f"unexpected answer of the driver: {error!r}", code=None) from None

    def _too_old(self) -> str:
        return f"the driver ({self.version or 'of unknown version'}) is too old for it"

    def _text(self, name: str, *arguments: object) -> str | None:
        try:
            text = self.call(name, *arguments)
        except Unreadable:
            return None
        return text.decode("utf-8", errors="replace") if isinstance(text, bytes) else str(text)

    def _cuda(self) -> str | None:
        try:
            number = self.call("nvmlSystemGetCudaDriverVersion")
        except Unreadable:
            return None
        return f"{number // 1000}.{number % 1000 // 10}"

    def _slices(self, index: int, handle: Any) -> list[Device]:
        try:
            if not self.call("nvmlDeviceGetMigMode", handle)[0]:
                return []
            places = self.call("nvmlDeviceGetMaxMigDeviceCount", handle)
        except Unreadable:
            return []
        found = []
        for place in range(places):
            try:
                one = self.call("nvmlDeviceGetMigDeviceHandleByIndex", handle, place)
            except Unreadable:  # nothing in this place
                continue
            found.append(self._device(index, one, is_slice=True))
        return found

    def _device(self, index: int, handle: Any, *, is_slice: bool = False) -> Device:
        uuid = self._text("nvmlDeviceGetUUID", handle)
        unknown = {} if uuid else {"device": "the driver does not tell its UUID"}
        gpu = Gpu(
            index=index,
            uuid=uuid or "",
            name=self._text("nvmlDeviceGetName", handle),
            driver=self.version,
            mig=is_slice or (uuid or "").startswith("MIG-") or self._is_divided(handle),
            unknown=unknown,
        )
        return Device(self.call, handle, gpu)

    def _is_divided(self, handle: Any) -> bool:
        try:
            return bool(self.call("nvmlDeviceGetMigMode", handle)[0])
        except Unreadable:
            return False
