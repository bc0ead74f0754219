"""What holds a trial under its limits of memory: the wall of its group, the watchdog's looks, both or neither.

Loaded by the supervisor, like process_tree; it says when to end the trial and what was passed; the supervisor acts.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence

from vtune.execution.defects import note_defect
from vtune.execution.memory_group import MemoryGroup
from vtune.execution.watchdog import Watchdog
from vtune.execution.watchdog_reading import TreeReading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class MemoryGuard:
    def __init__(self, folder: str, token: str) -> None:
        self._folder = folder
        self._limits = _read_limits(folder)
        place = self._limits.get("group")
        self._group = MemoryGroup(place["kind"], place["parent"], token) if place else None
        self._reading: TreeReading | None = None
        self._watchdog: Watchdog | None = None
        self._failed: str | None = None
        # What was passed, once it was.
        self.over: dict[str, Any] | None = None

    # --- the group ---

    @property
    def group_path(self) -> str | None:
        return self._group.path if self._group is not None else None

    def make_group(self) -> None:
        if self._group is not None and not self._group.make(self._limits.get("wall_bytes")):
            self._group = None

    def join_group(self) -> None:
        """This very process; OSError where it may not."""
        if self._group is not None:
            self._group.join()

    def remove_group(self) -> None:
        if self._group is not None:
            self._group.remove()

    def do_without_group(self) -> None:
        self.remove_group()
        self._group = None

    def groups_count(self) -> Mapping[str, Any] | None:
        return None if self._group is None else self._group.end()

    def was_the_wall(self, count: Mapping[str, Any]) -> bool:
        """The kernel was there before the watchdog's next look: what held is the limit that the wall stands behind."""
        if not count["oom_kills"] or count["at_limit"] is False:
            return False
        limit = self._limits.get("ram_bytes")
        self.over = {"what": "kernel", "used_bytes": self._peak_bytes(), "limit_bytes": limit, "left_bytes": None}
        return True

    # --- the watchdog ---

    def get_ready(self) -> None:
        """Before the training is there: what the machine holds now is not the trial's."""
        if self._limits:
            with contextlib.suppress(OSError):  # no /proc/meminfo: nothing can be watched
                self._reading = TreeReading()

    def watch(self, pids: Callable[[], Sequence[int]], now_s: float) -> None:
        if self._reading is None:
            return
        try:
            self._watchdog = Watchdog(self._limits, self._group, pids, reading=self._reading, now_s=now_s)
        except Exception as error:
            self._go_on_unwatched(error)

    @property
    def due_s(self) -> float:
        return float("inf") if self._watchdog is None else self._watchdog.due_s

    def look(self, now_s: float) -> bool:
        """Whether the trial has to be ended."""
        if self._watchdog is None:
            return False
        try:
            self.over = self._watchdog.look(now_s)
        except Exception as error:
            self._go_on_unwatched(error)
        return self.over is not None

    def _go_on_unwatched(self, error: Exception) -> None:
        """A defect of vtune's is no reason to lose the trial; a group's wall still stands."""
        self._failed = f"{type(error).__name__}: {error}"
        if self._watchdog is not None:
            self._watchdog.due_s = float("inf")
        note_defect(self._folder)

    def account(self) -> dict[str, Any] | None:
        """What was held, by whom and how far it came; None where nothing was."""
        if self._watchdog is None and self._failed is None:
            return None
        return {
            "limit_bytes": self._limits.get("ram_bytes"),
            "is_default": self._limits.get("ram_is_default", False),
            "reserve_bytes": self._limits.get("reserve_bytes"),
            "by": "watchdog" if self._group is None else self._group.kind,
            "peak_bytes": self._peak_bytes(),
            "failed": self._failed,
        }

    def _peak_bytes(self) -> int | None:
        return None if self._watchdog is None else self._watchdog.peak_bytes


def _read_limits(folder: str) -> dict[str, Any]:
    """Empty where nobody set any."""
    try:
        with open(os.path.join(folder, "limits.json"), encoding="utf-8") as file:
            limits: dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return {}
    return limits
