"""What a trial's watcher asks of its processes, wherever they run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from vtune.domain.trial import EndedBy, TrialOutcome, TrialSpec


class RunningTrial(Protocol):
    """Leaving the `with` block ends whatever still runs, on every path."""

    @property
    def own_pids(self) -> Sequence[int]:
        """vtune's own processes that exist for this trial: not part of it, not neighbours either."""

    def pids(self) -> Sequence[int]:
        """The trial's whole tree, as of at most a second ago."""

    def poll(self) -> TrialOutcome | None:
        """The outcome once every process of the trial is gone, None before."""

    def end(self, reason: EndedBy, grace_s: float) -> None:
        """Let it end by itself for so long, then end it; returns at once."""

    def kill(self, reason: EndedBy) -> None:
        """End it at once; returns at once."""

    def close(self, reason: EndedBy) -> None:
        """End it without any grace, whatever does not answer; returns when nothing of it is left."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Starter(Protocol):
    def start(self, spec: TrialSpec, folder: Path) -> RunningTrial:
        """The folder exists and holds spec.json and all that the command names."""
