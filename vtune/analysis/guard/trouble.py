"""What a full run ended of, and whether safer settings would help."""

from __future__ import annotations

import re
from itertools import pairwise

from vtune.domain.launch import Trouble
from vtune.domain.trial import TrialStatus

FULL_DISK = re.compile(r"No space left on device|\bENOSPC\b|\[Errno 28\]|Disk quota exceeded|\[Errno 122\]")
TRACEBACK = re.compile(r"^(?:\[rank\d+\]: ?)?(?:Original )?Traceback \(most recent call last\):\n", re.MULTILINE)
RANK = re.compile(r"^\[rank\d+\]: ?")
# At the end of a traceback: the next one is of the same end.
COMES_OF = re.compile(
    r"(?:During handling of the above exception, another exception occurred:"
    r"|The above exception was the direct cause of the following exception:"
    r"|Caught \w+ in (?:DataLoader worker process|replica|pin memory thread).*)(?:\[rank\d+\]:|\s)*\Z"
)
LAST_LINES = 3
# torch's own writer keeps the system's word to itself: it may have been another one.
NOT_WRITTEN = re.compile(r"PytorchStreamWriter failed writing|unexpected pos \d+ vs \d+|iostream error")
# Below it a disk is as good as full, whatever the next file would take.
LEAST_FREE = 16 * 2**20
LOST_WORKER = re.compile(r"DataLoader worker \(pid\(?s?\)? [0-9, ]+\) (?:is killed by signal|exited unexpectedly)")
OF: dict[TrialStatus, Trouble] = {
    TrialStatus.OUT_OF_RAM: "ram",
    TrialStatus.OUT_OF_SHM: "shm",
    TrialStatus.OUT_OF_VRAM: "vram",
}


def disk_is_full(last_words: str, free_bytes: int | None, error: str = "") -> bool:
    """`error`: what it ended with, where that is known from elsewhere; `free_bytes`: of the fullest place that it
    writes to, where that is known. What was only told on the way, as by a tracker that dropped a line, ends nothing."""
    ended_with = f"{raised(last_words)}\n{error}"
    if FULL_DISK.search(ended_with) is not None:
        return True
    return NOT_WRITTEN.search(ended_with) is not None and free_bytes is not None and free_bytes < LEAST_FREE


def raised(words: str) -> str:
    """The error of the last traceback, with those that it came of, a line each; the last lines where there is none."""
    before, *blocks = TRACEBACK.split(words)
    if not blocks:
        return "\n".join([line for line in before.splitlines() if line.strip()][-LAST_LINES:])
    found: list[str] = []
    for earlier, block in pairwise(["", *blocks]):
        lines = [RANK.sub("", line) for line in block.splitlines()]
        error = next((line for line in lines if line.strip() and not line.startswith(" ")), "")
        found = [*found, error] if COMES_OF.search(earlier) else [error]
    return "\n".join(found)


def trouble_of(status: TrialStatus, last_words: str) -> Trouble | None:
    """None where nobody knows what would be safer: a crash that explains nothing, a full disk, somebody's signal."""
    if status in OF:
        return OF[status]
    if status is TrialStatus.CRASHED and LOST_WORKER.search(last_words) is not None:
        return "workers"
    return None
