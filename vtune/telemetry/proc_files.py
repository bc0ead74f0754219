"""Files of /proc that are read again and again, kept open: a reading costs a fifth of opening, reading and closing."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Container
from pathlib import Path

# Beyond so many (60 processes) files are opened anew each time; this process' other files need descriptors as well.
MOST_KEPT = 256
# Longer than any of the files that are kept: the name in `stat` has at most 64 characters.
_BYTES = 2048


class ProcFiles:
    """What cannot be read is empty: gone meanwhile, somebody else's, or not known to this kernel."""

    def __init__(self, proc: Path) -> None:
        self.root = str(proc)
        self._kept: dict[tuple[int, str], int] = {}
        import resource  # there is none on Windows, where reports can be read all the same

        self._most = min(MOST_KEPT, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)
        weakref.finalize(self, _close, self._kept)

    def of_process(self, pid: int, name: str) -> bytes:
        """Short ones: the numbers of a process that goes on changing them."""
        descriptor = self._kept.get((pid, name))
        try:
            if descriptor is None:
                descriptor = os.open(f"{self.root}/{pid}/{name}", os.O_RDONLY)
                if len(self._kept) >= self._most:
                    try:
                        return os.pread(descriptor, _BYTES, 0)
                    finally:
                        os.close(descriptor)
                self._kept[pid, name] = descriptor
            # One that ended is never mistaken for a later one of its number: its file tells nothing any more.
            return os.pread(descriptor, _BYTES, 0)
        except OSError:
            self._drop((pid, name))
            return b""

    def whole(self, name: str) -> bytes:
        try:
            with open(f"{self.root}/{name}", "rb") as file:
                return file.read()
        except OSError:
            return b""

    def keep_only(self, pids: Container[int]) -> None:
        for key in [key for key in self._kept if key[0] not in pids]:
            self._drop(key)

    def _drop(self, key: tuple[int, str]) -> None:
        descriptor = self._kept.pop(key, None)
        if descriptor is not None:
            os.close(descriptor)


def _close(kept: dict[tuple[int, str], int]) -> None:
    for descriptor in kept.values():
        with contextlib.suppress(OSError):
            os.close(descriptor)
    kept.clear()
