"""Processor time that vtune takes from the machine while a training runs on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# On full cores all that vtune takes is the training's; elsewhere it takes what nobody uses.
THRIFT = 4.0


class Spending:
    """Work that comes again and again, so seldom that it takes no more than its share of one core."""

    def __init__(
        self,
        share: float,
        *,
        every_s: float,
        now_s: float,
        cores_are_full: Callable[[], bool] = lambda: False,
        spent: Callable[[], float] = time.thread_time,
    ) -> None:
        self._share, self._every_s, self._spent = share, every_s, spent
        self._cores_are_full = cores_are_full
        self.due_s = now_s

    def is_due(self, now_s: float) -> bool:
        return now_s >= self.due_s

    @contextmanager
    def on(self, now_s: float) -> Iterator[None]:
        """Counts the work inside, and moves the next one away accordingly."""
        begun_s = self._spent()
        try:
            yield
        finally:
            share = self._share / THRIFT if self._cores_are_full() else self._share
            self.due_s = now_s + max(self._every_s, (self._spent() - begun_s) / share)
