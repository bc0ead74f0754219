"""A closed terminal or a polite kill ends vtune like Ctrl-C: all saved, nothing left running."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def terminations_as_interrupts(tell: Callable[[], None] = lambda: None) -> Iterator[None]:
    """`tell` says what is happening, before anything is ended."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        tell()
        raise KeyboardInterrupt

    caught = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    # Whoever started it under nohup, or in the background of a script, wants it to go on.
    caught = [number for number in caught if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in caught}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
