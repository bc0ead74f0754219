"""What each process did between the looks of the last seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from vtune.domain.watching import Look, ProcessNow, Role

WINDOW_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    pid: int
    role: Role
    cores: float
    # Shares of the time: ready to run without a core; in a wait that cannot be interrupted (storage).
    queued: float | None
    on_disk: float
    # None where it may not be read.
    moved_bytes: int | None
    read_bytes_per_s: float | None
    written_bytes_per_s: float | None
    # Where its main thread was found asleep most often.
    sleeps_in: str | None
    # By a signal or by a debugger.
    stopped: bool = False

    @property
    def busy(self) -> float:
        """Share of one core's time that it computed or would have; more than one core is no more than busy."""
        return min(1.0, self.cores + (self.queued or 0.0))


def last_looks(looks: Sequence[Look]) -> Sequence[Look]:
    """Of the window; at least two, where there are two."""
    first = next((n for n, look in enumerate(looks) if look.t_s >= looks[-1].t_s - WINDOW_S), 0)
    return looks[min(first, max(0, len(looks) - 2)) :]


def paces(looks: Sequence[Look]) -> dict[int, Pace]:
    """Of those that are there now, and were before."""
    seen: dict[int, list[tuple[float, ProcessNow]]] = {}
    for look in looks:
        for process in look.processes:
            seen.setdefault(process.pid, []).append((look.t_s, process))
    now = {process.pid for process in looks[-1].processes} if looks else set()
    return {pid: _pace(found) for pid, found in seen.items() if pid in now and len(found) > 1}


def last_workers(looks: Sequence[Look]) -> list[Pace]:
    """Those of now; where they start anew with each epoch and none is there at this moment, those that were last."""
    for end in range(len(looks), 1, -1):
        found = [pace for pace in paces(looks[:end]).values() if pace.role == "worker"]
        if found:
            return found
    return []


def _pace(found: Sequence[tuple[float, ProcessNow]]) -> Pace:
    (begun_s, first), (ended_s, last) = found[0], found[-1]
    seconds = ended_s - begun_s

    def gained(name: str) -> float | None:
        before, after = getattr(first, name), getattr(last, name)
        return None if before is None or after is None else after - before

    def by_second(name: str) -> float | None:
        more = gained(name)
        return None if more is None else more / seconds

    asleep = Counter(process.sleeps_in for _, process in found if process.state in "SD" and process.sleeps_in)
    moved = gained("moved_bytes")
    queued = by_second("queued_s")
    return Pace(
        pid=last.pid,
        role=last.role,
        cores=max(0.0, (last.cpu_s - first.cpu_s) / seconds),
        queued=None if queued is None else min(1.0, max(0.0, queued)),
        on_disk=fmean(process.state == "D" for _, process in found),
        moved_bytes=None if moved is None else int(moved),
        read_bytes_per_s=by_second("read_bytes"),
        written_bytes_per_s=by_second("written_bytes"),
        sleeps_in=asleep.most_common(1)[0][0] if asleep else None,
        stopped=last.state in "Tt",
    )
