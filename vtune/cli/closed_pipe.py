"""Output that nobody reads any more (`vtune report | head -1`): the rest of it goes nowhere, the command to its end."""

from __future__ import annotations

import io
import select
import sys
from typing import TextIO


class Unread(io.FileIO):
    """Below Python's buffers: what is in them is written at the very end, where nobody could catch anything."""

    def write(self, data: bytes) -> int:  # type: ignore[override]
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            return memoryview(data).nbytes


def ignore_closed_pipes() -> None:
    """Click and rich would each end the program with 1, which is a verdict here: B is slower."""
    sys.stdout, sys.stderr = _guarded(sys.stdout), _guarded(sys.stderr)


def nobody_reads(stream: TextIO) -> bool:
    """The other end of its pipe was closed: who has more to tell for days may leave."""
    poll = select.poll()
    try:
        poll.register(stream.fileno(), 0)
    except (OSError, ValueError):  # caught in memory, or closed
        return False
    return any(found & select.POLLERR for _, found in poll.poll(0))


def _guarded(stream: object) -> io.TextIOWrapper:
    """`stream` is None where the program was started without one, and something else where it is caught."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream  # type: ignore[return-value]
    raw = Unread(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        raw if isinstance(stream.buffer, io.FileIO) else io.BufferedWriter(raw),  # type: ignore[type-var]
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
