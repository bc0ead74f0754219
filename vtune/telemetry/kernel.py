"""What this kernel and this sandbox let a process see and do: it decides what a trial can measure."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from vtune.telemetry.cgroup import MemoryGroups, PlaceForGroups
from vtune.telemetry.mountinfo import mounts
from vtune.telemetry.proc_text import PROC, text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    release: str
    # Time that a process was ready to run and had no core.
    schedstat: bool
    # Each page of a tree counted once, page cache apart (Linux 5.9).
    pss_anon: bool
    # Bytes read, by process.
    process_io: bool
    pidfd: bool
    # /proc hides other users' processes: neighbours have no names.
    proc_hides_others: bool
    # A trial can be given a memory group of its own.
    memory_group_writable: bool
    # The way it is made, or why it cannot be, in words.
    memory_group: str | None = None


def kernel(proc: Path = PROC) -> Kernel:
    own = proc / "self"
    place = MemoryGroups(proc).place_for_trials()
    return Kernel(
        release=platform.release(),
        schedstat=len(text_of(own / "schedstat").split()) == 3,
        pss_anon="Pss_Anon:" in text_of(own / "smaps_rollup"),
        process_io="read_bytes:" in text_of(own / "io"),
        pidfd=hasattr(os, "pidfd_open"),
        proc_hides_others=_hides_others(proc),
        memory_group_writable=isinstance(place, PlaceForGroups),
        memory_group=place.kind if isinstance(place, PlaceForGroups) else place,
    )


def _hides_others(proc: Path) -> bool:
    options = {option for mount in mounts(proc) if mount.filesystem == "proc" for option in mount.options}
    return any(option.startswith("hidepid=") and option not in ("hidepid=0", "hidepid=off") for option in options)
