"""What a trial's processes took of the machine: memory, shared memory, cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from vtune.analysis.roles import Roles
from vtune.domain.events import TelemetrySample
from vtune.domain.record import Measurement


def with_memory(measured: Measurement, telemetry: Sequence[TelemetrySample], roles: Roles | None) -> Measurement:
    ram = [s.ram_bytes for s in telemetry if s.ram_bytes is not None]
    shm = [s.shm_used_bytes for s in telemetry if s.shm_used_bytes is not None]
    others = [s.others_cores for s in telemetry if s.others_cores is not None]
    shm_peak = _shm_peak(shm, ended=bool(telemetry) and not telemetry[-1].processes)
    unknown = dict(measured.unknown)
    if telemetry and not ram:
        unknown["ram_peak_bytes"] = (
            "the kernel does not tell how much its processes share (before Linux 5.9, or another user's), or it ended"
            " before it was asked"
        )
    if shm and shm_peak is None:
        unknown["shm_peak_bytes"] = "others used /dev/shm meanwhile"
    return replace(
        measured,
        ram_peak_bytes=max(ram, default=None),
        shm_peak_bytes=shm_peak,
        workers_rss_bytes=_workers_rss(telemetry, roles) if roles else (),
        others_cores=median(others) if others else None,
        tree_cores=_tree_cores(telemetry),
        unknown=unknown,
    )


def _shm_peak(used: Sequence[int], *, ended: bool) -> int | None:
    """The counter is the machine's: what stood there before the trial is not ours, and if it does not come back to that
    after the trial's end, somebody else used it meanwhile."""
    if not used or (ended and abs(used[-1] - used[0]) > 2**20):
        return None
    return max(used) - used[0]


def _workers_rss(telemetry: Sequence[TelemetrySample], roles: Roles) -> tuple[int, ...]:
    """Peak by worker slot: workers that are restarted each epoch are still worker 0, worker 1 …"""
    peaks: dict[int, int] = {}
    for sample in telemetry:
        for process in sample.processes:
            peaks[process.pid] = max(peaks.get(process.pid, 0), process.rss_bytes)
    slots: dict[int, int] = {}
    for one in roles.passes:
        for slot, pid in enumerate(one.worker_pids):
            if pid in peaks:
                slots[slot] = max(slots.get(slot, 0), peaks[pid])
    peers = [peaks[pid] for pid in roles.peers_worker_pids if pid in peaks]
    return (*(slots[slot] for slot in sorted(slots)), *peers)


def _tree_cores(telemetry: Sequence[TelemetrySample]) -> float | None:
    """Cores that the trial's processes kept busy, over the second half of the samples: start-up is not the training."""
    half = telemetry[len(telemetry) // 2 :]
    if len(half) < 2 or half[-1].t_s <= half[0].t_s:
        return None
    busy = 0.0
    for before, after in pairwise(half):
        known = {p.pid: p.cpu_s for p in before.processes}
        busy += sum(p.cpu_s - known[p.pid] for p in after.processes if p.pid in known)
    return busy / (half[-1].t_s - half[0].t_s)
