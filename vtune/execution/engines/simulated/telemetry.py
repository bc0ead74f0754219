"""What the sampler would have seen of a simulated trial: its processes, their memory, the device, the neighbours."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from vtune.domain.events import GpuSample, ProcessSample, TelemetrySample
from vtune.domain.machine import Gpu
from vtune.execution.engines.simulated.loader import Load
from vtune.execution.engines.simulated.memory import Held
from vtune.execution.engines.simulated.recording import DEVICE_UUID
from vtune.execution.engines.simulated.surface import Device
from vtune.execution.engines.simulated.training import Training
from vtune.execution.engines.simulated.weather import Weather
from vtune.execution.sampling import SAMPLE_S

Floats = NDArray[np.float64]
# A trial of many minutes is looked at less often than a real one: each look is a line with all of its processes.
MOST_SAMPLES = 40
IDLE_W, BUSY_W = 60.0, 300.0


def gpu_of(device: Device) -> Gpu:
    return Gpu(index=0, uuid=f"GPU-{DEVICE_UUID}", name=device.name, memory_bytes=device.vram_bytes, driver="simulated")


def look_on(training: Training, held: Held, weather: Weather, end_s: float) -> list[TelemetrySample]:
    """The last look is after the end: nothing of the trial is left then."""
    at = _times(training, held, end_s)
    ram, shm, vram = held.ram_bytes(at), held.shm_bytes(at), held.vram_bytes(at)
    processes = _Processes(training, end_s)
    busy = _device_busy(training, at)
    available = training.surface.box.ram_bytes
    samples = []
    for n, t_s in enumerate(at.tolist()):
        own, others = processes.at(t_s), weather.at(t_s)[1]
        before_s = float(at[n - 1]) if n else training.started_s
        samples.append(
            TelemetrySample(
                t_s=t_s,
                processes=own,
                ram_bytes=int(ram[n]),
                shm_used_bytes=int(shm[n]),
                others_cores=others if n else None,
                ram_available_bytes=max(0, available - int(ram[n])),
                gpus=_gpus(training.surface.device, int(vram[n]), busy, n, t_s - before_s, t_s - training.started_s),
            )
        )
    # Freed by then: what is still used was never the trial's.
    after = TelemetrySample(
        t_s=end_s + SAMPLE_S, processes=(), ram_bytes=None, shm_used_bytes=0, others_cores=None,
        ram_available_bytes=available,
    )  # fmt: skip
    return [*samples, after]


def _times(training: Training, held: Held, end_s: float) -> Floats:
    span_s = end_s - training.started_s
    grid = np.arange(training.started_s, end_s, max(SAMPLE_S, span_s / MOST_SAMPLES))
    # Memory is read once more when it jumps, so its peak is not missed.
    seen = held.changes[held.changes <= end_s]
    peak = seen[[int(held.ram_bytes(seen).argmax())]] if len(seen) else seen
    times: Floats = np.unique(np.concatenate((grid, peak, [end_s])))
    return times


class _Processes:
    def __init__(self, training: Training, end_s: float) -> None:
        self._training = training
        memory, settings = training.surface.memory, training.settings
        self._rss = int(memory.worker_bytes + settings.batch * memory.work_bytes)
        self._sample_bytes = training.surface.sample.read_bytes
        self._own = np.array(training.own_cpu_s).T
        by_pid: dict[int, list[Load]] = {}
        for load in training.loads:
            by_pid.setdefault(load.pid, []).append(load)
        self._workers = {pid: _Counters(loads, self._sample_bytes) for pid, loads in by_pid.items()}
        self._alive = [(one.ready_s, one.ended_s, one.worker_pids) for one in training.passes]

    def at(self, t_s: float) -> tuple[ProcessSample, ...]:
        training = self._training
        main = ProcessSample(
            pid=training.pid,
            ppid=training.pid - 1,
            name="python",
            rss_bytes=int(training.surface.memory.main_bytes),
            cpu_s=float(np.interp(t_s, self._own[0], self._own[1])),
            queued_s=0.0,
            requested_bytes=0,
            read_bytes=0,
        )
        pids = next((own for begin_s, _, own in reversed(self._alive) if begin_s <= t_s), ())
        ended_s = next((end_s for begin_s, end_s, _ in reversed(self._alive) if begin_s <= t_s), None)
        if ended_s is not None and t_s > ended_s and not training.settings.persistent:
            pids = ()
        return (main, *(self._worker(pid, t_s) for pid in pids))

    def _worker(self, pid: int, t_s: float) -> ProcessSample:
        seen = self._workers.get(pid)
        cpu_s, queued_s, requested, read = seen.at(t_s) if seen is not None else (0.0, 0.0, 0.0, 0.0)
        return ProcessSample(
            pid=pid,
            ppid=self._training.pid,
            name="python",
            rss_bytes=self._rss,
            cpu_s=cpu_s,
            queued_s=queued_s,
            requested_bytes=int(requested),
            read_bytes=int(read),
        )


class _Counters:
    """Of one worker; within a batch they grow evenly."""

    def __init__(self, loads: list[Load], sample_bytes: float) -> None:
        self._begins = [one.started_s for one in loads]
        self._loads = loads
        grown = [(one.cpu_s, one.queued_s, one.samples * sample_bytes, one.read_bytes) for one in loads]
        self._grown = grown
        self._before = [(0.0, 0.0, 0.0, 0.0), *map(tuple, np.cumsum(np.array(grown), axis=0).tolist())]

    def at(self, t_s: float) -> tuple[float, float, float, float]:
        number = bisect_right(self._begins, t_s) - 1
        if number < 0:
            return 0.0, 0.0, 0.0, 0.0
        load = self._loads[number]
        share = min(1.0, (t_s - load.started_s) / max(1e-9, load.finished_s - load.started_s))
        a, b = self._before[number], self._grown[number]
        return a[0] + share * b[0], a[1] + share * b[1], a[2] + share * b[2], a[3] + share * b[3]


def _device_busy(training: Training, at: Floats) -> Floats:
    """Seconds in which the device was busy, as they grew."""
    if training.surface.device is None or not training.steps:
        return np.zeros(len(at))
    edges = np.array([(one.on_device_s, one.on_device_s + one.device_busy_s) for one in training.steps])
    total = np.repeat(np.concatenate(([0.0], np.cumsum(edges[:, 1] - edges[:, 0]))), 2)[1:-1]
    busy: Floats = np.interp(at, edges.ravel(), total)
    return busy


def _gpus(
    device: Device | None, used: int, busy: Floats, n: int, over_s: float, since_s: float
) -> tuple[GpuSample, ...]:
    if device is None:
        return ()
    share = min(1.0, float(busy[n] - busy[n - 1]) / over_s) if n and over_s > 0 else 0.0
    return (
        GpuSample(
            uuid=f"GPU-{DEVICE_UUID}",
            util_percent=100 * share,
            used_bytes=used,
            own_bytes=used or None,
            others_bytes=0,
            power_w=IDLE_W + share * (BUSY_W - IDLE_W),
            energy_j=IDLE_W * since_s + (BUSY_W - IDLE_W) * float(busy[n]),
            sm_clock_mhz=1400.0,
            temperature_c=50.0,
        ),
    )
