"""A file of ours, opened when there is something to write, and never another's that has got its number."""

from __future__ import annotations

import os


class OwnFile:
    """`flags`: how it is opened, beyond for writing and made where it is not there."""

    def __init__(self, path: str, *, flags: int = 0) -> None:
        self._path = path
        # CLOEXEC: children that are started must not hold it.
        self._flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags
        self._descriptor: int | None = None
        self._identity = (0, 0)

    def descriptor(self) -> int:
        if self._descriptor is None or not self._is_still_ours(self._descriptor):
            descriptor = os.open(self._path, self._flags, 0o666)
            status = os.fstat(descriptor)
            self._descriptor, self._identity = descriptor, (status.st_dev, status.st_ino)
            if status.st_size == 0:
                self.begin(descriptor)
        return self._descriptor

    def begin(self, descriptor: int) -> None:
        """In an empty file."""

    def write_over(self, text: bytes) -> None:
        if os.pwrite(self.descriptor(), text, 0) != len(text):
            raise OSError("short write")

    def forget(self) -> None:
        """In a fork's child: the parent's descriptor is not for us."""
        if self._descriptor is not None and self._is_still_ours(self._descriptor):
            os.close(self._descriptor)
        self._descriptor = None

    def _is_still_ours(self, descriptor: int) -> bool:
        # A training that closes all descriptors (a daemon) may have opened its own file under our number.
        try:
            status = os.fstat(descriptor)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity
