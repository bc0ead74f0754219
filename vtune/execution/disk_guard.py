"""The space on disk that a trial may fill, watched from its supervisor.

Loaded by the supervisor, like process_tree.
"""

from __future__ import annotations

import time

from vtune.execution.overlay import disk_used, read_protection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A look goes through every file that the trial wrote: it takes at most this share of a core.
_SHARE = 0.02
_LEAST_S = 1.0


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
        used = disk_used(self._folder)
        taken_s = time.monotonic() - now_s
        self._due_s = now_s + max(_LEAST_S, taken_s / _SHARE)
        if used <= self._limit:
            return False
        self.over = {"what": "disk", "used_bytes": used, "limit_bytes": self._limit, "left_bytes": None}
        return True
