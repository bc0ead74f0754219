"""A file that only grows, one write a call."""

from __future__ import annotations

import os

from _vtune_hooks.own_file import OwnFile


class AppendFile(OwnFile):
    def __init__(self, path: str, *, header: bytes = b"") -> None:
        # A torn end is the worst that can happen.
        super().__init__(path, flags=os.O_APPEND)
        self._header = header

    def append(self, text: bytes) -> None:
        if os.write(self.descriptor(), text) != len(text):
            raise OSError("short write")

    def begin(self, descriptor: int) -> None:
        if self._header:
            os.write(descriptor, self._header)
