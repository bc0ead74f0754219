"""The devices while a trial runs: a thread looks at them on a fixed grid, so that a driver that hangs stalls nobody."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from types import TracebackType
from typing import Self

from vtune.domain.events import GpuSample
from vtune.domain.machine import Gpu, bare_uuid
from vtune.telemetry.nvml import HANGS, Driver, NoDriver, driver, hangs, left_hanging
from vtune.telemetry.watched_gpu import Ours, WatchedGpu

INTERVAL_S = 0.2
# Nobody knows yet which devices the training will use: all of them, for what was there before it.
ALL_S = 1.0
PCIE_S = 1.0
# A training imports torch for a second at least before it opens a device; waking a driver may take longer than that.
BASELINE_WITHIN_S = 5.0
# A look takes milliseconds; the driver may be busy with a reset for a second or two.
SILENT_S = 5.0
CLOSE_WITHIN_S = 0.5
_PEAKS = ("used_bytes", "own_bytes", "others_bytes")


class GpuSampler:
    """`take` gives what was seen since the last `take`; it never waits for the driver and never raises."""

    def __init__(self, *, interval_s: float = INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._seen: dict[str, GpuSample] = {}
        self._watched: tuple[WatchedGpu, ...] = ()
        self._wanted: frozenset[str] = frozenset()
        self._not_found: set[str] = set()
        self._ours = Ours()
        self._stop, self._first_look = threading.Event(), threading.Event()
        self._asking_since_s: float | None = None
        self._asking_pcie_since_s: float | None = None
        self._why_none: str | None = None
        self._threads: list[threading.Thread] = []

    def start(self, wait_s: float = BASELINE_WITHIN_S) -> None:
        """Returns after the first look at all devices: what is used then is not the trial's."""
        if hangs():
            self._why_none = HANGS
            return
        self._run("vtune-gpus", self._watch)
        self._first_look.wait(wait_s)

    def follow(self, uuids: Iterable[str]) -> None:
        """The devices that the training has told; from now on only these are looked at, but more often."""
        self._wanted |= {bare_uuid(uuid) for uuid in uuids}

    def take(self, own_pids: Iterable[int] = ()) -> tuple[GpuSample, ...]:
        """The trial's processes are told along: whoever else is on a device is a neighbour."""
        now = frozenset(own_pids)
        self._ours = Ours(now=now, ever=now.union(self._ours.ever))
        with self._lock:
            seen, self._seen = self._seen, {}
        return tuple(seen.values())

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        reason = "the driver did not answer any more: a call to it hangs"
        of_all = {"device": reason} if _is_silent(self._asking_since_s) else {}
        # One thread asks for all of them: it hangs for each.
        of_followed = {"pcie": reason} if _is_silent(self._asking_pcie_since_s) else {}
        return tuple(
            replace(gpu, unknown={**of_all, **(of_followed if watched.is_followed else {}), **gpu.unknown})
            for watched in self._watched
            for gpu in [watched.gpu]
        )

    @property
    def why_none(self) -> str | None:
        """Why no device is looked at; None when some are."""
        if self._watched:
            return None
        if self._why_none is None and _is_silent(self._asking_since_s):
            return "the NVIDIA driver does not answer"
        return self._why_none

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(CLOSE_WITHIN_S)
            if thread.is_alive():
                left_hanging(thread)
        self._threads.clear()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _watch(self) -> None:
        try:
            self._asking_since_s = time.monotonic()
            asked = driver()
            self._watched = tuple(WatchedGpu(device) for device in asked.devices())
            if not self._watched:
                raise NoDriver("the NVIDIA driver shows no device")
        except NoDriver as error:
            self._why_none = str(error)
            return
        finally:
            self._asking_since_s = None
            if not self._watched:
                self._first_look.set()
        self._run("vtune-gpus-pcie", self._watch_pcie)
        due_s = all_due_s = time.monotonic()
        while not self._stop.is_set():
            now_s = time.monotonic()
            self._meet(asked)
            mine = [watched for watched in self._watched if watched.is_followed]
            if mine:
                self._look(mine)
            elif now_s >= all_due_s:
                self._look(self._watched)
                all_due_s += ALL_S * (1 + (now_s - all_due_s) // ALL_S)
            self._first_look.set()
            due_s += self._interval_s * (1 + (now_s - due_s) // self._interval_s)
            self._stop.wait(due_s - time.monotonic())

    def _meet(self, asked: Driver) -> None:
        """Marks what the training has told. The driver is asked for what its own list did not show."""
        wanted = self._wanted
        for bare in wanted - {bare_uuid(watched.device.gpu.uuid) for watched in self._watched} - self._not_found:
            device = asked.find(bare)
            if device is None:
                self._not_found.add(bare)
            else:
                self._watched = (*self._watched, WatchedGpu(device))
        for watched in self._watched:
            watched.told = watched.told or bare_uuid(watched.device.gpu.uuid) in wanted

    def _look(self, watched: Iterable[WatchedGpu]) -> None:
        for one in watched:
            if one.lost or self._stop.is_set():
                continue
            self._asking_since_s = now_s = time.monotonic()
            sample = one.look(now_s, self._ours)
            self._asking_since_s = None
            if sample is None:
                continue
            with self._lock:
                before = self._seen.get(sample.uuid)
                self._seen[sample.uuid] = sample if before is None else _merged(before, sample)

    def _watch_pcie(self) -> None:
        due_s = time.monotonic()
        while not self._stop.wait(max(0.0, due_s - time.monotonic())):
            for watched in self._watched:
                if watched.is_followed and not self._stop.is_set():
                    self._asking_pcie_since_s = now_s = time.monotonic()
                    watched.look_at_pcie(now_s)
                    self._asking_pcie_since_s = None
            due_s += PCIE_S * (1 + (time.monotonic() - due_s) // PCIE_S)


def _is_silent(asking_since_s: float | None) -> bool:
    return asking_since_s is not None and time.monotonic() - asking_since_s > SILENT_S


def _merged(before: GpuSample, after: GpuSample) -> GpuSample:
    """Two looks in one sample: the newest of each, but the most of memory."""
    known = {f.name: value for f in fields(GpuSample) if (value := getattr(after, f.name)) is not None}
    for name in _PEAKS:
        both = [value for one in (before, after) if (value := getattr(one, name)) is not None]
        known[name] = max(both, default=None)
    return replace(before, **known)
