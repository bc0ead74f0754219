"""The cores that this process may use, and of what they are cores."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from vtune.telemetry.cgroup import cpu_quota_cores
from vtune.telemetry.proc_text import PROC

CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    # What can be kept busy at once: the smaller of affinity and quota.
    usable: float
    # Logical processors by affinity (a job scheduler, taskset, cpuset).
    allowed: int
    # Of the control group (docker --cpus, Kubernetes); None without one.
    quota: float | None
    # In the machine altogether.
    logical: int | None
    # Physical cores behind the allowed ones; fewer than those where two threads share a core.
    physical: int | None


def cores(proc: Path = PROC, cpus: Path = CPUS) -> Cores:
    allowed = allowed_cores()
    quota = cpu_quota_cores(proc)
    return Cores(
        usable=float(len(allowed)) if quota is None else min(float(len(allowed)), quota),
        allowed=len(allowed),
        quota=quota,
        logical=os.cpu_count(),
        physical=_physical(allowed, cpus),
    )


def allowed_cores() -> frozenset[int]:
    """By number."""
    try:
        return frozenset(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not Linux
        return frozenset(range(os.cpu_count() or 1))


def _physical(allowed: frozenset[int], cpus: Path) -> int | None:
    siblings = set()
    for number in allowed:
        try:
            siblings.add((cpus / f"cpu{number}" / "topology" / "thread_siblings_list").read_text().strip())
        except OSError:
            return None
    return len(siblings) or None
