"""A trial that was cut off and that nothing proves to be ours: it is left alone, and that is told."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from vtune.cli.live import Progress, notice_text
from vtune.domain.progress import FilesPutBack, UnprovenLeft


@pytest.mark.parametrize("trials", [("0007",), ("0007", "0009")])
def test_unproven_trials_are_named_before_the_first_trial(trials: tuple[str, ...]) -> None:
    shown = io.StringIO()
    event = UnprovenLeft(trials=trials)
    with Progress(Console(file=shown, width=80)) as progress:
        progress(event)
    assert shown.getvalue() == notice_text(event) + "\n"
    assert all(trial in shown.getvalue() for trial in trials)


def test_files_that_a_sweep_put_back_and_those_that_it_did_not_are_told_before_the_first_trial() -> None:
    shown = io.StringIO()
    failed = (("/ct/last.pt", "changed"), ("/ct/b.pt", "changed"), ("/ct/c.pt", "changed"))
    event = FilesPutBack(trial="/ct/results/a/trials/0007", put_back=1203, moved=17, not_put_back=failed)
    with Progress(Console(file=shown, width=80)) as progress:
        progress(event)
    assert shown.getvalue() == notice_text(event) + "\n"
    assert all(word in shown.getvalue() for word in (event.trial, "1203", "17", "/ct/last.pt", "2 more"))
