"""What the control groups allow this process: container, job scheduler or systemd slice; versions 1 and 2."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vtune.telemetry.mountinfo import mounts
from vtune.telemetry.proc_text import PROC, integer_of, text_of

# Version 1 says "no limit" with the largest multiple of a page that fits 63 bits.
_NO_LIMIT = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceForGroups:
    """An existing group in which a smaller one can be made for a trial."""

    kind: Literal["cgroup v1", "cgroup v2"]
    parent: str


class MemoryGroups:
    """The groups around this process that limit its memory; where they are is looked up once."""

    def __init__(self, proc: Path = PROC) -> None:
        self._groups = list(_groups_of(proc, "memory"))

    def place_for_trials(self) -> PlaceForGroups | str:
        """Or why there is none, in words. Nothing is changed by looking."""
        found: PlaceForGroups | str = "no memory control groups are seen here"
        for version in (False, True):
            own = next((folder for folder, v2 in self._groups if v2 is version), None)
            if own is not None:
                found = _beside(own, [folder for folder, v2 in self._groups if v2]) if version else _inside(own)
            if isinstance(found, PlaceForGroups):
                break
        return found

    def limited(self) -> list[tuple[str, str, str, int]]:
        """Those with a limit: folder, names of the file with the use and of the entry with the page cache, limit."""
        return [
            (
                str(folder),
                *(("memory.current", "inactive_file") if v2 else ("memory.usage_in_bytes", "total_inactive_file")),
                limit,
            )
            for folder, v2 in self._groups
            if (limit := _memory_limit(folder, v2)) is not None
        ]

    def limit_bytes(self) -> int | None:
        limits = [limit for folder, v2 in self._groups if (limit := _memory_limit(folder, v2)) is not None]
        return min(limits, default=None)

    def available_bytes(self) -> int | None:
        """What the tightest group still lets us have; its page cache counts as free, as in MemAvailable."""
        left = []
        for folder, v2 in self._groups:
            limit = _memory_limit(folder, v2)
            used = integer_of(folder / ("memory.current" if v2 else "memory.usage_in_bytes"))
            if limit is not None and used is not None:
                cache = _entries(folder / "memory.stat").get("inactive_file" if v2 else "total_inactive_file", 0)
                left.append(max(0, limit - used + cache))
        return min(left, default=None)

    def page_cache_bytes(self) -> int | None:
        """Of the tightest group: files only, for shared memory is counted as cache but cannot be had back."""
        limited = [
            (limit, folder, v2) for folder, v2 in self._groups if (limit := _memory_limit(folder, v2)) is not None
        ]
        if not limited:
            return None
        _, folder, v2 = min(limited, key=lambda one: one[0])
        entries = _entries(folder / "memory.stat")
        cache, shared = entries.get("file" if v2 else "total_cache"), entries.get("shmem" if v2 else "total_shmem")
        return None if cache is None or shared is None else max(0, cache - shared)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuGroup:
    """The tightest of the groups around this process that limit its processor time."""

    folder: Path
    v2: bool
    quota_cores: float

    def used_s(self) -> float | None:
        """By all that share the quota, up to now."""
        if self.v2:
            used = _entries(self.folder / "cpu.stat").get("usage_usec")
            return None if used is None else used * 1e-6
        # There where both controllers are mounted as one, which is nearly everywhere.
        used = integer_of(self.folder / "cpuacct.usage")
        return None if used is None else used * 1e-9


def cpu_group(proc: Path = PROC) -> CpuGroup | None:
    groups = [
        CpuGroup(folder=folder, v2=v2, quota_cores=cores)
        for folder, v2 in _groups_of(proc, "cpu")
        if (cores := _quota_cores(folder, v2)) is not None
    ]
    return min(groups, key=lambda group: group.quota_cores, default=None)


def cpu_quota_cores(proc: Path = PROC) -> float | None:
    group = cpu_group(proc)
    return None if group is None else group.quota_cores


def _quota_cores(folder: Path, v2: bool) -> float | None:
    if v2:
        words = text_of(folder / "cpu.max").split()
        return int(words[0]) / int(words[1]) if len(words) == 2 and words[0] != "max" else None
    quota, period = integer_of(folder / "cpu.cfs_quota_us"), integer_of(folder / "cpu.cfs_period_us")
    return quota / period if quota is not None and period and quota > 0 else None


def _groups_of(proc: Path, controller: str) -> Iterator[tuple[Path, bool]]:
    """This process' group and all above it that are visible here, each with whether it is of version 2."""
    paths = {}
    for line in text_of(proc / "self" / "cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" or controller in controllers.split(","):
            paths[number == "0"] = path
    for mount in mounts(proc):
        v2 = mount.filesystem == "cgroup2"
        if v2 in paths and (v2 or (mount.filesystem == "cgroup" and controller in mount.options)):
            root, top = mount.root, Path(mount.top)
            # In a container the path may be the host's, of which only the part below the mounted root is visible.
            below = paths[v2].removeprefix(root.rstrip("/")).strip("/") if paths[v2].startswith(root) else ""
            folder = top / below if (top / below).is_dir() else top
            yield from ((group, v2) for group in (folder, *folder.parents) if group.is_relative_to(top))


def _inside(own: Path) -> PlaceForGroups | str:
    # Without it, before Linux 5.11, the limits around us would not hold in a group below.
    inherits = integer_of(own / "memory.use_hierarchy") != 0
    if inherits and _writable(own):
        return PlaceForGroups(kind="cgroup v1", parent=str(own))
    return f"the memory group of this process cannot be divided: {own} is not ours to write to"


def _beside(own: Path, seen: Sequence[Path]) -> PlaceForGroups | str:
    """Version 2 keeps processes in leaves: beside us, unless we are in the root, which is exempt."""
    for folder in (own, own.parent):
        enabled = "memory" in text_of(folder / "cgroup.subtree_control").split()
        if folder in seen and enabled and _writable(folder):
            if folder == own or _is_unlimited(own):
                return PlaceForGroups(kind="cgroup v2", parent=str(folder))
            return f"a group beside this process' own would escape the limits of {own}"
    return f"memory is not delegated to us: neither {own} nor the group around it can be divided"


def _writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK) and os.access(folder / "cgroup.procs", os.W_OK)


def _is_unlimited(folder: Path) -> bool:
    """Whoever leaves this group leaves no limit behind: not of memory, and none that would change the timing."""
    allowed = {
        "memory.max": "max",
        "memory.high": "max",
        "memory.swap.max": "max",
        "cpu.max": "max 100000",
        "cpu.weight": "100",
        "pids.max": "max",
        "io.max": "",
        "cpuset.cpus": "",
        "cpuset.mems": "",
    }
    return all(text_of(folder / name).strip() in (value, "") for name, value in allowed.items())


def _memory_limit(folder: Path, v2: bool) -> int | None:
    limit = integer_of(folder / ("memory.max" if v2 else "memory.limit_in_bytes"))
    return limit if limit is not None and limit < _NO_LIMIT else None


def _entries(path: Path) -> dict[str, int]:
    pairs = (line.partition(" ") for line in text_of(path).splitlines())
    return {name: int(value) for name, _, value in pairs if value.isdecimal()}
