"""A file that only grows, opened when there is something to write, one write a call."""

from __future__ import annotations

import os


class AppendFile:
    def __init__(self, path: str, *, header: bytes = b"") -> None:
        self._path = path
        self._header = header
        self._descriptor: int | None = None
        self._identity = (0, 0)

    def append(self, text: bytes) -> None:
        if self._descriptor is None or not self._is_still_ours(self._descriptor):
            self._open()
        assert self._descriptor is not None
        if os.write(self._descriptor, text) != len(text):
            raise OSError("short write")

    def forget(self) -> None:
        """In a fork's child: the parent's descriptor is not for us."""
        if self._descriptor is not None and self._is_still_ours(self._descriptor):
            os.close(self._descriptor)
        self._descriptor = None

    def _open(self) -> None:
        # CLOEXEC: children that are started must not hold it. APPEND: a torn end is the worst that can happen.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o666)
        status = os.fstat(self._descriptor)
        self._identity = (status.st_dev, status.st_ino)
        if self._header and status.st_size == 0:
            os.write(self._descriptor, self._header)

    def _is_still_ours(self, descriptor: int) -> bool:
        # A training that closes all descriptors (a daemon) may have opened its own file under our number.
        try:
            status = os.fstat(descriptor)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity
