"""A trial that ends while vtune itself is told to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from vtune.domain.experiment import PlannedRun, Window
from vtune.domain.trial import EndedBy, TrialOutcome, TrialSpec
from vtune.execution import trial as trial_module
from vtune.execution.observer import Watch
from vtune.execution.trial import run_trial
from vtune.journal.paths import TrialPaths

SPEC = TrialSpec(
    trial=1, origin="asked", reason="", settings={}, effects=(), command=("python",), cwd="/", env={}, token="t"
)


class Ended:
    """A training that is gone at the first look; it starts itself."""

    own_pids: Sequence[int] = ()

    def __init__(self, outcome: TrialOutcome) -> None:
        self._outcome = outcome

    def start(self, spec: TrialSpec, folder: Path) -> Ended:
        return self

    def pids(self) -> Sequence[int]:
        return ()

    def poll(self) -> TrialOutcome | None:
        return self._outcome

    def end(self, reason: EndedBy, grace_s: float) -> None: ...

    def kill(self, reason: EndedBy) -> None: ...

    def close(self, reason: EndedBy) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None: ...


# By a signal, by a shell's number for it, and by torchrun's own.
@pytest.mark.parametrize(("exit_code", "signal"), [(None, 15), (143, None), (1, None)])
def test_of_all_that_are_told_to_end_the_training_may_be_heard_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exit_code: int | None, signal: int | None
) -> None:
    slept = time.sleep

    def told_while_waiting(seconds: float) -> None:
        if seconds == trial_module.OUR_TURN_S:
            raise KeyboardInterrupt
        slept(seconds)

    monkeypatch.setattr(time, "sleep", told_while_waiting)
    ended = Ended(TrialOutcome(ended_by="itself", exit_code=exit_code, signal=signal, seconds=1.0))
    watch = Watch(window=Window(), planned=PlannedRun())
    assert run_trial(ended, SPEC, TrialPaths(tmp_path), watch, lambda event: None).ended_by == "interrupt"


def test_a_training_that_ended_well_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    ended = Ended(TrialOutcome(ended_by="itself", exit_code=0, signal=None, seconds=1.0))
    watch = Watch(window=Window(), planned=PlannedRun())
    assert run_trial(ended, SPEC, TrialPaths(tmp_path), watch, lambda event: None).ended_by == "itself"
    assert trial_module.OUR_TURN_S not in waits
