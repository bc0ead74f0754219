"""What this process holds of the machine's memory, and how much more there is: before a larger batch is tried."""

from __future__ import annotations

import os
from collections.abc import Iterable

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes(pid: int | str = "self") -> int | None:
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
            return int(file.read(200).split()[1]) * PAGE
    except (OSError, ValueError, IndexError):
        return None


def held_bytes() -> int | None:
    """Resident and of no file."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            pages = file.read(200).split()
        return (int(pages[1]) - int(pages[2])) * PAGE
    except (OSError, ValueError, IndexError):
        return None


def highest_bytes() -> int | None:
    """Most that was ever resident. It is read, never reset: the training may read it too."""
    return _kilobytes("/proc/self/status", b"VmHWM:")


def available_bytes() -> int | None:
    """Of the machine; a container's own limit is the parent's to know."""
    return _kilobytes("/proc/meminfo", b"MemAvailable:")


def others_bytes(pids: Iterable[int]) -> int:
    """Loader workers: pages that they share with us count twice, which is the safe side."""
    return sum(resident_bytes(pid) or 0 for pid in pids)


def _kilobytes(path: str, key: bytes) -> int | None:
    try:
        with open(path, "rb") as file:
            for line in file:
                if line.startswith(key):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return None
