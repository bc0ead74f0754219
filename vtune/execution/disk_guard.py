"""The space on disk that a trial may fill, watched from its supervisor.

Loaded by the supervisor, like process_tree.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time

from vtune.execution.overlay import disk_used, files_below, read_protection
from vtune.journal.file_names import PROTECTION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# A look goes through every file that the trial wrote: it takes at most this share of a core.
_SHARE = 0.02
_LEAST_S = 1.0
# As the hooks leave them in the trial's folder (keeping.py).
_KEPT, _NOTHING_THERE = "kept", "nothing:"


class DiskGuard:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._limit: int | None = read_protection(folder).get("disk_bytes")
        self._due_s = 0.0
        # The limit and what was used, once it was passed.
        self.over: dict[str, Any] | None = None

    def is_over(self, now_s: float) -> bool:
        if self._limit is None or now_s < self._due_s:
            return False
        used = disk_used(self._folder) + _new_bytes(self._folder)
        taken_s = time.monotonic() - now_s
        self._due_s = now_s + max(_LEAST_S, taken_s / _SHARE)
        if used <= self._limit:
            return False
        self.over = {"what": "disk", "used_bytes": used, "limit_bytes": self._limit, "left_bytes": None}
        return True


def _new_bytes(folder: str) -> int:
    """Files kept from inside: the training's new ones stand among the user's until its end."""
    total = 0
    with contextlib.suppress(OSError):
        began_ns = os.stat(os.path.join(folder, PROTECTION)).st_mtime_ns
        for path in _noted_as_new(os.path.join(folder, _KEPT)):
            with contextlib.suppress(OSError):
                status = os.lstat(path)
                found = files_below(path) if stat.S_ISDIR(status.st_mode) else (status,)
                # A folder that only got another name holds files from before the trial.
                total += sum(one.st_blocks * 512 for one in found if one.st_ctime_ns >= began_ns)
    return total


def _noted_as_new(kept: str) -> Iterator[str]:
    with os.scandir(kept) as entries:
        for entry in entries:
            if entry.is_symlink():
                yield os.readlink(entry.path).removeprefix(_NOTHING_THERE)
