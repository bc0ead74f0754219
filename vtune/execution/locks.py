"""Files that one full run holds and no second one can: locked as long as the supervisor lives, freed by the kernel.

Loaded by the supervisor, like process_tree.
"""

from __future__ import annotations

import os
from collections.abc import Sequence


class Locks:
    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        # Python opens nothing inheritable: the training, which may leave somebody behind, does not hold them.
        self._descriptors: list[int] = []
        self.held_elsewhere = False

    def take(self) -> str | None:
        """Why not: the file that is held, and by whom; or what the operating system says of it."""
        import fcntl  # here: a trial has none

        for path in self._paths:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
                self._descriptors.append(descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.held_elsewhere = True
                return f"{path}: held by another run{_holder(descriptor)}"
            except OSError as error:
                return f"{path}: {error.strerror}"
        for descriptor in self._descriptors:
            _sign(descriptor)
        return None

    def join(self, hold: str | None) -> str | None:
        """Shares vtune's hold on the folders of a trial (see inside_hold). Why not."""
        if hold is None:
            return None
        import fcntl

        try:
            descriptor = os.open(hold, os.O_RDWR | os.O_NOFOLLOW)
            self._descriptors.append(descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return f"{hold}: {error.strerror}"
        # vtune was killed, and another study has come.
        return None if os.fstat(descriptor).st_nlink else f"{hold}: held by another study"


def _sign(descriptor: int) -> None:
    """For people: the lock itself is the kernel's."""
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except OSError:  # a full disk: it is held all the same
        pass


def _holder(descriptor: int) -> str:
    try:
        words = os.pread(descriptor, 32, 0).split()
    except OSError:
        return ""
    return f", process {words[0].decode()}" if words and words[0].isdigit() else ""
