"""All looks so far put together: what is shown now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from vtune.analysis.watching.growth import growth_of, passes_in_s
from vtune.analysis.watching.log_lines import errors_of, progress_of
from vtune.analysis.watching.measured import with_measured
from vtune.analysis.watching.pace import Pace, last_looks, paces
from vtune.analysis.watching.renting import costs_text, tuning_text
from vtune.analysis.watching.verdict import verdict_of
from vtune.domain.events import GpuSample
from vtune.domain.experiment import Limit, Price
from vtune.domain.machine import Gpu
from vtune.domain.watching import GpuRow, Growth, LaunchSeen, Look, Mark, ProcessNow, ProcessRow, Watched

# Of the looks that growth is told from.
GROWTH_OVER_S = 600.0
# Below this nobody's memory runs out.
_LEAST_GROWTH = 2**20 / 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Beside the looks."""

    pid: int
    command: str
    ran_s: float
    seen_s: float
    ended: bool = False
    # Each process' own part of the memory, of the last dear reading.
    parts: Mapping[int, int] = field(default_factory=dict)
    on_gpu: bool = False
    gpus: Sequence[Gpu] = ()
    newest_gpu: Mapping[str, GpuSample] = field(default_factory=dict)
    gpu_unread_because: str | None = None
    vram: Limit | None = None
    ram_limit_bytes: int | None = None
    shm_bytes: int | None = None
    cores: float
    marks: Sequence[Mark] = ()
    no_log_because: str | None = None
    price: Price | None = None
    epochs: int | None = None
    launch: LaunchSeen | None = None
    # Measured, by the counters of a launch.
    wait_share: float | None = None
    missing: tuple[str, ...] = ()


def picture_of(recent: Sequence[Look], thinned: Sequence[Look], known: Known) -> Watched:
    """`recent`: all of the last half minute; `thinned`: some of all."""
    newest = recent[-1] if recent else Look(t_s=0.0, processes=())
    window = last_looks(recent) if recent else recent
    by_pid = paces(window)
    long = [look for look in thinned if look.t_s >= newest.t_s - GROWTH_OVER_S]
    exact = [(look.t_s, look.ram_bytes) for look in long if look.ram_bytes is not None]
    ram = exact[-1][1] if exact else None
    growth, left = growth_of(exact), _left(ram, known.ram_limit_bytes, newest.ram_available_bytes)
    used = [gpu for gpu in known.gpus if known.on_gpu or _own(known.newest_gpu.get(gpu.uuid))]
    seems = verdict_of(recent, gpu_percent=_gpu_percent(used, window), ended=known.ended)
    verdict = with_measured(seems, known.wait_share, workers=len(newest.of("worker")))
    progress = progress_of(known.marks, epochs=known.epochs)
    left_s = known.launch.left_s if known.launch is not None else None
    order = {"launcher": 0, "training": 1, "worker": 2, "other": 3}
    shown = sorted(newest.processes, key=lambda process: (order[process.role], process.pid))
    return Watched(
        pid=known.pid,
        command=known.command,
        ran_s=known.ran_s,
        seen_s=known.seen_s,
        ended=known.ended,
        processes=tuple(_row(process, by_pid.get(process.pid), known.parts, long) for process in shown),
        gpus=tuple(_gpu_row(gpu, known) for gpu in (used or known.gpus)),
        gpu_unread_because=known.gpu_unread_because,
        ram_bytes=ram,
        ram_limit_bytes=known.ram_limit_bytes,
        ram_growth=growth,
        ram_limit_in_s=passes_in_s(_worth_telling(growth), left),
        shm_used_bytes=newest.shm_used_bytes,
        shm_bytes=known.shm_bytes,
        cores=known.cores,
        others_cores=newest.others_cores,
        read_bytes_per_s=_sum(pace.read_bytes_per_s for pace in by_pid.values()),
        written_bytes_per_s=_sum(pace.written_bytes_per_s for pace in by_pid.values()),
        progress=progress,
        no_log_because=known.no_log_because,
        errors=errors_of(known.marks),
        verdict=verdict,
        costs=costs_text(known.price, verdict),
        tuning=tuning_text(progress.left_s if left_s is None else left_s, verdict),
        launch=known.launch,
        missing=known.missing,
    )


def _left(held_bytes: int | None, limit_bytes: int | None, available_bytes: int | None) -> int | None:
    """Below the limit; and the machine may be full before, for others take of it, too."""
    below = None if held_bytes is None or limit_bytes is None else max(0, limit_bytes - held_bytes)
    return min((left for left in (below, available_bytes) if left is not None), default=None)


def _row(process: ProcessNow, pace: Pace | None, parts: Mapping[int, int], long: Sequence[Look]) -> ProcessRow:
    levels = [
        (look.t_s, one.anon_bytes)
        for look in long
        for one in look.processes
        if one.pid == process.pid and one.anon_bytes is not None
    ]
    return ProcessRow(
        pid=process.pid,
        role=process.role,
        cores=None if pace is None else pace.cores,
        queued_share=None if pace is None else pace.queued,
        disk_share=None if pace is None else pace.on_disk,
        sleeps_in=None if pace is None else pace.sleeps_in,
        ram_bytes=parts.get(process.pid, process.anon_bytes),
        growth=_worth_telling(growth_of(levels)),
        read_bytes_per_s=None if pace is None else pace.read_bytes_per_s,
    )


def _worth_telling(growth: Growth | None) -> Growth | None:
    if growth is None or abs(growth.bytes_per_s) - growth.give_or_take < _LEAST_GROWTH:
        return None
    return growth


def _gpu_row(gpu: Gpu, known: Known) -> GpuRow:
    sample = known.newest_gpu.get(gpu.uuid)
    limit = gpu.memory_bytes if known.vram is None else known.vram.resolve(gpu.memory_bytes)
    return GpuRow(
        name=f"{gpu.index} {gpu.name or ''}".strip(),
        util_percent=None if sample is None else sample.util_percent,
        used_bytes=None if sample is None else sample.used_bytes,
        limit_bytes=limit,
        throttled_by=() if sample is None else sample.throttled_by,
        others_bytes=None if sample is None else sample.others_bytes,
    )


def _gpu_percent(used: Sequence[Gpu], window: Sequence[Look]) -> float | None:
    uuids = {gpu.uuid for gpu in used}
    told = [
        sample.util_percent
        for look in window
        for sample in look.gpus
        if sample.uuid in uuids and sample.util_percent is not None
    ]
    return fmean(told) if told else None


def _own(sample: GpuSample | None) -> bool:
    return sample is not None and bool(sample.own_bytes)


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
