"""What the supervisor writes about itself and about the end, replaced as a whole.

Loaded by the supervisor, like process_tree.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STATE, OUTCOME = "supervisor.json", "outcome.json"
# More than an outcome takes.
_ROOM_BYTES = 16384


class StateFiles:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._room: str | None = None

    def keep_room(self) -> None:
        """For the last file: the training may have filled the disk by then, and days are lost without a word of why."""
        path = os.path.join(self._folder, _room(os.getpid()))
        try:
            with open(path, "wb") as file:
                file.write(b" " * _ROOM_BYTES)
                file.flush()
                os.fsync(file.fileno())
            self._room = path
        except OSError:
            _remove(path)

    def write(self, name: str, content: Mapping[str, Any], *, synced: bool = False) -> None:
        """`synced`: also after a power cut it is the old file or the new one; the start has no time for it."""
        beside = os.path.join(self._folder, _beside(name, os.getpid()))
        try:
            self._replace(beside, name, content, synced=synced)
        except OSError as error:  # a full disk: nothing half-written stays on it
            _remove(beside)
            # A failed write does not say which file it was.
            raise OSError(error.errno, error.strerror, os.path.join(self._folder, name)) from error

    def write_last(self, name: str, content: Mapping[str, Any]) -> None:
        try:
            self.write(name, content, synced=True)
        except OSError:
            if self._room is None:
                raise
            # Written over what it holds already, which no disk is too full for.
            self._replace(self._room, name, content, synced=True)
        else:
            if self._room is not None:
                _remove(self._room)

    def _replace(self, beside: str, name: str, content: Mapping[str, Any], *, synced: bool) -> None:
        text = json.dumps(content, indent=1).encode() + b"\n"
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.truncate()
            file.flush()
            if synced:
                with contextlib.suppress(OSError):
                    os.fsync(file.fileno())
        os.replace(beside, os.path.join(self._folder, name))


def remove_unfinished(folder: str, pid: int) -> None:
    """The room that a killed supervisor kept, and the file that it was just writing."""
    for name in (_room(pid), *(_beside(name, pid) for name in (STATE, OUTCOME))):
        _remove(os.path.join(folder, name))


def _room(pid: int) -> str:
    return f".room.{pid}"


def _beside(name: str, pid: int) -> str:
    return f".{name}.{pid}.tmp"


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
