"""What this process tells of files: those that it wrote outside the protected folders, and one that it could not keep.

A file of its own, and each line with an opening of its own: such lines are rare, also come from Pythons without torch
and from a loader's workers, and have to be there when the process is killed.
"""

from __future__ import annotations

import os
import time

from _vtune_hooks.json_text import text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Names that one process tells.
MOST = 10_000

_open, _write, _close, _lstat, _getpid = os.open, os.write, os.close, os.lstat, os.getpid


class ToldFiles:
    def __init__(self, trial: str) -> None:
        self._trial = trial
        # A fork's child inherits it with what its parent has told.
        self._told: set[str] = set()

    def before_writing(self, path: str) -> None:
        """`path`, a real one, is about to be written, made, renamed or removed: how it is now, once."""
        if path in self._told or len(self._told) > MOST:
            return
        self._told.add(path)
        try:
            if len(self._told) > MOST:
                self.tell("more")
                return
            try:
                status = _lstat(path)
            except OSError:
                self.tell("touched", path=path, before=None)
            else:
                before = [status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode]
                self.tell("touched", path=path, before=before)
        except OSError:  # a full disk
            pass

    def tell(self, fact: str, **fields: Any) -> None:
        line = text_of({"t": time.monotonic(), "fact": fact, **fields}) + "\n"
        name = os.path.join(self._trial, f"files-{_getpid()}.jsonl")
        descriptor = _open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _write(descriptor, line.encode())
        finally:
            _close(descriptor)
