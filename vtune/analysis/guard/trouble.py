"""What a full run ended of, and whether safer settings would help."""

from __future__ import annotations

import re

from vtune.domain.launch import Trouble
from vtune.domain.trial import TrialStatus

FULL_DISK = re.compile(r"No space left on device|\bENOSPC\b|\[Errno 28\]|Disk quota exceeded|\[Errno 122\]")
# torch's own writer keeps the system's word to itself: it may have been another one.
NOT_WRITTEN = re.compile(r"PytorchStreamWriter failed writing|unexpected pos \d+ vs \d+|iostream error")
# Below it a disk is as good as full, whatever the next file would take.
LEAST_FREE = 16 * 2**20
LOST_WORKER = re.compile(r"DataLoader worker \(pid\(?s?\)? [0-9, ]+\) (?:is killed by signal|exited unexpectedly)")
OF: dict[TrialStatus, Trouble] = {
    TrialStatus.OUT_OF_RAM: "ram",
    TrialStatus.OUT_OF_SHM: "shm",
    TrialStatus.OUT_OF_VRAM: "vram",
    TrialStatus.HUNG: "workers",
}


def disk_is_full(last_words: str, free_bytes: int | None) -> bool:
    """`free_bytes`: of the fullest place that it writes to, where that is known."""
    if FULL_DISK.search(last_words) is not None:
        return True
    return NOT_WRITTEN.search(last_words) is not None and free_bytes is not None and free_bytes < LEAST_FREE


def trouble_of(status: TrialStatus, last_words: str) -> Trouble | None:
    """None where nobody knows what would be safer: a crash that explains nothing, a full disk, somebody's signal."""
    if status in OF:
        return OF[status]
    if status is TrialStatus.CRASHED and LOST_WORKER.search(last_words) is not None:
        return "workers"
    return None
