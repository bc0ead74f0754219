"""How much memory a trial may take: what the user named, or else what leaves the machine usable."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vtune.telemetry.cgroup import MemoryGroups, PlaceForGroups
from vtune.telemetry.memory import MachineMemory, built_in_bytes
from vtune.telemetry.proc_files import ProcFiles
from vtune.telemetry.proc_text import PROC

# Left to everybody else where the user names no limit: a shell, an editor, vtune itself, the kernel's own tables.
RESERVE_SHARE, RESERVE_BYTES = 0.05, 2**30
# A container of 2 GiB is small for a training, but half of it would be too small.
RESERVE_AT_MOST = 1 / 8
# When no more than this is left of the whole machine, a trial that took it is ended whatever its limit says: reclaiming
# the last pages stalls everybody, and the kernel's own choice of a victim comes late.
FLOOR_OF_RESERVE, FLOOR_AT_MOST = 1 / 4, 2**30
# The kernel's wall stands behind the watchdog, who sees what is used and tells it: only a burst between two looks gets
# there. The group also holds page tables and other memory of the kernel's that no limit means.
WALL_SHARE, WALL_AT_LEAST, WALL_AT_MOST = 0.05, 32 * 2**20, 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class RamLimits:
    """As written to a trial's limits.json, for its supervisor."""

    ram_bytes: int | None
    # What the user did not name guards the trial, and is no reason to choose between settings.
    ram_is_default: bool
    # Left to everybody else.
    reserve_bytes: int | None
    floor_bytes: int | None
    # Where the trial's own group is to be made, and where it ends.
    group: PlaceForGroups | None
    wall_bytes: int | None
    groups_around: tuple[tuple[str, str, str, int], ...] = ()


def ram_limits(asked_bytes: int | None, proc: Path = PROC, *, by_user: bool = True) -> RamLimits:
    """As of now: what others hold changes from trial to trial. `by_user`: who asked, where somebody did."""
    groups = MemoryGroups(proc)
    has = min((b for b in (built_in_bytes(proc), groups.limit_bytes()) if b is not None), default=None)
    available = MachineMemory(ProcFiles(proc), groups).look(0.0)[0]
    reserve = None if has is None else int(min(max(RESERVE_BYTES, RESERVE_SHARE * has), RESERVE_AT_MOST * has))
    floor = None
    if reserve is not None and available is not None:
        # On a machine that is short of memory already, the trial is measured by what it takes of the rest.
        floor = int(min(FLOOR_OF_RESERVE * reserve, FLOOR_AT_MOST, available / 4))
    ram = asked_bytes if asked_bytes is not None else _default(available, reserve)
    place = groups.place_for_trials()
    wall = None if ram is None else ram + int(min(max(WALL_SHARE * ram, WALL_AT_LEAST), WALL_AT_MOST))
    is_default = ram is not None and (asked_bytes is None or not by_user)
    if is_default and ram is not None and available is not None:
        reserve = max(0, available - ram)
    return RamLimits(
        ram_bytes=ram,
        ram_is_default=is_default,
        reserve_bytes=reserve,
        floor_bytes=floor,
        group=place if isinstance(place, PlaceForGroups) else None,
        wall_bytes=wall,
        groups_around=tuple(groups.limited()),
    )


def _default(available: int | None, reserve: int | None) -> int | None:
    if available is None or reserve is None:
        return None
    return max(available - reserve, available // 2)
