"""Output that cannot be written, and what that does to a command.

Nobody reads stdout any more (`vtune report | head -1`): the rest of it goes nowhere, the command to its end. Stdout is
full or closed: the result is lost, which is an error. Stderr only accompanies: nothing that happens to it counts.
"""

from __future__ import annotations

import io
import os
import select
import sys
from typing import TextIO

STDOUT = "standard output"


class Result(io.FileIO):
    """Below Python's buffers: what is in them is written at the very end, where nobody could catch anything."""

    def write(self, data: bytes) -> int:  # type: ignore[override]
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            return memoryview(data).nbytes
        except OSError as error:
            raise OSError(error.errno, error.strerror, STDOUT) from error


class Accompanying(io.FileIO):
    def write(self, data: bytes) -> int:  # type: ignore[override]
        try:
            return super().write(data) or 0
        except OSError:
            return memoryview(data).nbytes


def guard_streams() -> None:
    """Click and rich would each end the program with 1, which is a verdict here: B is slower."""
    # The next file that vtune opens would get the number of a closed one, and what is printed. Opened for reading,
    # each write to it fails, as to a closed one.
    while (opened := os.open(os.devnull, os.O_RDONLY)) <= 2:
        pass
    os.close(opened)
    sys.stdout, sys.stderr = _guarded(sys.stdout, 1, Result), _guarded(sys.stderr, 2, Accompanying)


def nobody_reads(stream: TextIO) -> bool:
    """The other end of its pipe was closed: who has more to tell for days may leave."""
    poll = select.poll()
    try:
        poll.register(stream.fileno(), 0)
    except (OSError, ValueError):  # caught in memory, or closed
        return False
    return any(found & select.POLLERR for _, found in poll.poll(0))


def _guarded(stream: object, number: int, kind: type[io.FileIO]) -> io.TextIOWrapper:
    """`stream` is None where the program was started without one, and something else where it is caught."""
    if stream is None:
        raw = kind(number, "w", closefd=False)
        return io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    if not isinstance(stream, io.TextIOWrapper):
        return stream  # type: ignore[return-value]
    raw = kind(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        raw if isinstance(stream.buffer, io.FileIO) else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
