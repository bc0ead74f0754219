"""A full run that somebody stopped by a signal (SIGSTOP): told once, and its time held against nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from vtune.domain.numbers import seconds
from vtune.telemetry.proc_text import PROC, text_of


class Stopped:
    """Fed with each look."""

    def __init__(self, states: Callable[[int], str] | None = None) -> None:
        self._state_of = states or _state
        self._seen: frozenset[int] = frozenset()
        self._since_s: float | None = None
        self._is_told = False
        self.last_s: float | None = None
        self.longest_s = 0.0

    def look(self, pids: Iterable[int], now_s: float) -> Sequence[tuple[str, str]]:
        """Events: kind and words. What is only seen once may be on its way to its end, stopped by its supervisor."""
        stopped = frozenset(pid for pid in pids if self._state_of(pid) == "T")
        again, self._seen = self._seen & stopped, stopped
        if stopped:
            self.last_s = now_s
            self._since_s = now_s if self._since_s is None else self._since_s
            self.longest_s = max(self.longest_s, now_s - self._since_s)
            if not again or self._is_told:
                return ()
            self._is_told = True
            return (("paused", _words(sorted(again))),)
        since_s, was_told = self._since_s, self._is_told
        self._since_s, self._is_told = None, False
        if since_s is None:
            return ()
        # It went on at some moment since the last look.
        self.last_s, self.longest_s = now_s, max(self.longest_s, now_s - since_s)
        return (("continued", f"goes on after {seconds(now_s - since_s)}, which do not count"),) if was_told else ()

    def without(self, gap_s: float) -> float:
        """The longest time between two steps, where the longest of these stops is part of it."""
        return gap_s - self.longest_s if gap_s >= self.longest_s else gap_s


def _words(pids: Sequence[int]) -> str:
    who = f"process {pids[0]} was" if len(pids) == 1 else f"processes {', '.join(map(str, pids))} were"
    return f"{who} stopped by a signal: kill -CONT {' '.join(map(str, pids))} lets it go on; the time does not count"


def _state(pid: int) -> str:
    return text_of(PROC / str(pid) / "stat").rpartition(")")[2].strip()[:1]
