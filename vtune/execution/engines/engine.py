"""What the loop asks of whatever runs a trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from vtune.domain.progress import TuningEvent
from vtune.domain.trial import TrialOutcome, TrialSpec
from vtune.execution.observer import Watch
from vtune.journal.paths import TrialPaths


class Engine(Protocol):
    def run(
        self, spec: TrialSpec, folder: TrialPaths, watch: Watch, notify: Callable[[TuningEvent], None]
    ) -> TrialOutcome:
        """Returns when nothing of the trial is left but its folder, from which all else is read."""
