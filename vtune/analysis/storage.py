"""What the training's process and its loader's workers did over the window: on a core, waiting for one, reading."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median
from typing import TypeVar

from vtune.analysis.roles import Roles
from vtune.analysis.window import StepWindow
from vtune.domain.events import BatchLoaded, ProcessSample, TelemetrySample
from vtune.domain.machine_use import ProcessUse
from vtune.domain.numbers import bytes_
from vtune.domain.record import Cache, Measurement

# Less than this, in all or by batch, is not the data: indices come through a pipe, a worker opens a source file.
LEAST_REQUESTED_BYTES = 2**20
LEAST_REQUESTED_BY_BATCH = 8 * 2**10
# A device is some ten times slower than memory: at one miss in twenty the loader reads at two thirds of its pace, and
# what is called warm must not be far from it. At the other end a neighbour's read-ahead may spare one request in ten.
WARM_BELOW = 0.05
COLD_ABOVE = 0.9
# Beyond so many times what read() asked for, the device delivers something else: mapped files, or read-ahead of 128 KiB
# for headers of a few.
MAPPED_ABOVE = 4.0
# From here on it is worth a sentence.
QUEUED_MUCH = 0.1
MUCH_READ_BYTES_PER_S = 2**20
MANY_FILES_BY_SAMPLE = 4.0


N = TypeVar("N", int, float)


@dataclass(slots=True, kw_only=True)
class _Use:
    """Of one role, summed over the processes that had it one after the other."""

    cpu_s: float = 0.0
    queued_s: float | None = 0.0
    requested_bytes: int | None = 0
    read_bytes: int | None = 0
    over_s: float = 0.0
    bytes_over_s: float = 0.0


def with_storage(
    measured: Measurement,
    telemetry: Sequence[TelemetrySample],
    loaded: Sequence[BatchLoaded],
    roles: Roles,
    regular: Sequence[StepWindow],
) -> Measurement:
    """`regular`: the measured steps."""
    begin, end = regular[0].started_s, regular[-1].ended_s
    seen = [sample for sample in telemetry if begin <= sample.t_s <= end]
    cached = [sample.page_cache_bytes for sample in seen or telemetry if sample.page_cache_bytes is not None]
    measured = replace(measured, page_cache_bytes=cached[-1] if cached else None)
    span = seen[-1].t_s - seen[0].t_s if seen else 0.0
    if span <= 0:
        return measured
    slots = _slots(roles)
    earlier = [sample for sample in telemetry if sample.t_s < begin]
    uses = _uses(earlier, seen, {roles.pid: "main", **slots})
    loads = list(roles.own_loads(loaded))
    rows = [
        _row(role, use, span, _files_per_sample([one for one in loads if slots.get(one.pid) == role]))
        for role, use in uses.items()
    ]
    readers = [use for role, use in uses.items() if (role != "main") == bool(slots)]
    batches = len(_in_steps(loads, regular)) if slots else sum(len(window.batches) for window in regular)
    return _with_cache(replace(measured, processes=tuple(rows)), readers, batches)


def storage_lines(measured: Measurement) -> list[str]:
    """What of it matters, for people."""
    workers = [use for use in measured.processes if use.role != "main"]
    main = [use for use in measured.processes if use.role == "main"]
    lines = []
    waiting = [(use.queued_fraction, use.role) for use in workers if (use.queued_fraction or 0.0) >= QUEUED_MUCH]
    if waiting:
        shares = [share for share, _ in waiting if share is not None]
        who = waiting[0][1] if len(waiting) == 1 else f"{len(waiting)} of {len(workers)} workers"
        lines.append(f"{who} waited {_span(shares)} of the time for a core")
    for use in main:
        if (use.queued_fraction or 0.0) >= QUEUED_MUCH:
            lines.append(f"the training's own process waited {use.queued_fraction:.0%} of the time for a core")
    readers = workers or main
    requested = _total(use.requested_bytes_per_s for use in readers)
    lines += _reading(measured, requested, _total(use.read_bytes_per_s for use in readers))
    lines += _opening([use.files_per_sample for use in workers])
    return lines


def _reading(measured: Measurement, requested: float | None, read: float | None) -> list[str]:
    lines = []
    if requested is not None and requested >= MUCH_READ_BYTES_PER_S:
        loader = "the loader" if measured.ranks == 1 else "the loader of one rank"
        if measured.cold_fraction is None:
            because = measured.unknown.get("cold_fraction")
            how = "how much of it comes from the device is not known" + (f": {because}" if because else "")
        elif measured.cache == "warm":
            how = "nearly all of it from memory: a first pass over the data has to wait for storage"
        else:
            how = f"{measured.cold_fraction:.0%} of it from the device"
        lines.append(f"{loader} reads {bytes_(requested)}/s, {how}")
    if read is not None and read >= MUCH_READ_BYTES_PER_S and read > MAPPED_ABOVE * (requested or 0.0):
        lines.append(
            f"{bytes_(read)}/s come from the device without read() asking for them: mapped files, or read-ahead"
        )
    return lines


def _opening(by_worker: Sequence[float | None]) -> list[str]:
    known = [files for files in by_worker if files is not None]
    if not known or fmean(known) < MANY_FILES_BY_SAMPLE:
        return []
    return [f"{fmean(known):.0f} files are opened for each sample: each costs a round trip where storage is far away"]


def _slots(roles: Roles) -> dict[int, str]:
    """Workers that are restarted each epoch are still worker 0, worker 1 …"""
    return {pid: f"worker {slot}" for one in roles.passes for slot, pid in enumerate(one.worker_pids)}


def _uses(
    earlier: Sequence[TelemetrySample], seen: Sequence[TelemetrySample], roles: Mapping[int, str]
) -> dict[str, _Use]:
    """In the order of the roles: the main process, then the workers."""
    uses = {role: _Use() for role in sorted(set(roles.values()), key=_place)}
    last = {process.pid: process for sample in (*earlier, seen[0]) for process in sample.processes}
    just_gone: set[int] = set()
    for before, after in pairwise(seen):
        now = {process.pid for process in after.processes}
        # What a child read is added to its parent's count when the parent has waited for it: all of its life at once.
        gone = {process.ppid for process in before.processes if process.pid not in now}
        for process in after.processes:
            role = roles.get(process.pid)
            if role is not None:
                counted = process.pid not in gone | just_gone
                _add(uses[role], last.get(process.pid), process, after.t_s - before.t_s, bytes_too=counted)
            last[process.pid] = process
        just_gone = gone
    return {role: use for role, use in uses.items() if use.over_s > 0}


def _place(role: str) -> tuple[int, str]:
    return (len(role), role) if role != "main" else (0, role)


def _add(use: _Use, before: ProcessSample | None, after: ProcessSample, seconds: float, *, bytes_too: bool) -> None:
    if before is not None and before.cpu_s > after.cpu_s:
        before = None  # a later process of the same number
    # Never seen before, it is new: its counters began at 0 within this time.
    start = before or replace(after, cpu_s=0.0, queued_s=0.0, requested_bytes=0, read_bytes=0)
    use.over_s += seconds
    use.cpu_s += after.cpu_s - start.cpu_s
    use.queued_s = _more(use.queued_s, start.queued_s, after.queued_s)
    if bytes_too:
        use.bytes_over_s += seconds
        use.requested_bytes = _more(use.requested_bytes, start.requested_bytes, after.requested_bytes)
        use.read_bytes = _more(use.read_bytes, start.read_bytes, after.read_bytes)


def _more(total: N | None, before: N | None, after: N | None) -> N | None:
    """Unknown once, unknown for the whole of the window."""
    return None if total is None or before is None or after is None else total + after - before


def _row(role: str, use: _Use, span: float, files: float | None) -> ProcessUse:
    # A worker that is started anew each epoch is away in between: its bytes are spread over all of the window.
    over = span if role != "main" and use.bytes_over_s else use.bytes_over_s
    requested, read = use.requested_bytes, use.read_bytes
    # Libraries in C open files without a word to Python: who reads but opens nothing is not known to open nothing.
    unheard = not files and (requested is None or requested >= LEAST_REQUESTED_BYTES)
    return ProcessUse(
        role=role,
        cpu_fraction=use.cpu_s / span,
        queued_fraction=None if use.queued_s is None else min(1.0, use.queued_s / span),
        requested_bytes_per_s=requested / over if requested is not None and over > 0 else None,
        read_bytes_per_s=read / over if read is not None and over > 0 else None,
        files_per_sample=None if role == "main" or unheard else files,
    )


def _with_cache(measured: Measurement, readers: Sequence[_Use], batches: int) -> Measurement:
    """Over all readers together, for what one brings in another finds."""
    requested, read = _total(use.requested_bytes for use in readers), _total(use.read_bytes for use in readers)
    if requested is None:
        return _not_known(measured, "the kernel does not let vtune see what the loader reads (/proc/PID/io)")
    if requested < max(LEAST_REQUESTED_BYTES, LEAST_REQUESTED_BY_BATCH * batches):
        return _not_known(measured, "the data do not come by read(): they are in memory, mapped, or made")
    if read is None:
        return _not_known(measured, "the kernel does not count what network mounts, FUSE and the like deliver")
    if read > MAPPED_ABOVE * requested:
        return _not_known(measured, "the device delivers far more than read() asks for: mapped files, or read-ahead")
    # Read-ahead brings more than was asked for.
    cold = min(1.0, read / requested)
    cache: Cache = "warm" if cold < WARM_BELOW else "cold" if cold > COLD_ABOVE else "mixed"
    return replace(measured, cold_fraction=cold, cache=cache)


def _not_known(measured: Measurement, because: str) -> Measurement:
    return replace(measured, unknown={**measured.unknown, "cold_fraction": because})


def _files_per_sample(loads: Iterable[BatchLoaded]) -> float | None:
    """Of the few that were looked at, wherever they lie: a worker's second batch is part of the warm-up."""
    seen = [(one.files, one.samples) for one in loads if one.files is not None and one.samples]
    return sum(files for files, _ in seen) / sum(samples for _, samples in seen) if seen else None


def _in_steps(loads: Iterable[BatchLoaded], regular: Sequence[StepWindow]) -> list[BatchLoaded]:
    """Finished within a measured step: what the measured samples cost, epoch boundaries apart."""
    ends = [window.ended_s for window in regular]

    def inside(batch: BatchLoaded) -> bool:
        at = bisect_left(ends, batch.finished_s)
        return at < len(regular) and batch.finished_s > regular[at].started_s

    return [batch for batch in loads if inside(batch)]


def _total(values: Iterable[float | None]) -> float | None:
    """Unknown where one is: a sum without it would be too small."""
    known = list(values)
    return None if not known or None in known else sum(value for value in known if value is not None)


def _span(shares: Sequence[float]) -> str:
    low, high = min(shares), max(shares)
    return f"{median(shares):.0%}" if high - low < 0.05 else f"{low:.0%} to {high:.0%}"
