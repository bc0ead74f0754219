"""A trial that was cut off and that nothing proves to be ours: it is left alone, and that is told."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from vtune.cli.live import Progress, notice_text
from vtune.domain.progress import UnprovenLeft


@pytest.mark.parametrize("trials", [("0007",), ("0007", "0009")])
def test_unproven_trials_are_named_before_the_first_trial(trials: tuple[str, ...]) -> None:
    shown = io.StringIO()
    event = UnprovenLeft(trials=trials)
    with Progress(Console(file=shown, width=80)) as progress:
        progress(event)
    assert shown.getvalue() == notice_text(event) + "\n"
    assert all(trial in shown.getvalue() for trial in trials)
