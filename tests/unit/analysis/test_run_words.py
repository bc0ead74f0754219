from __future__ import annotations

from dataclasses import replace

import pytest

from vtune.analysis.run_words import run_lines
from vtune.domain.record import Measurement, Pause, Projection

UNSEEN = Measurement(
    samples_per_s=10.0,
    first_batch_s=3.0,
    effective_settings={"workers": 2, "persistent_workers": False},
    projected=Projection(epoch_s=100.0),
)
VALIDATION = Pause(what="validation", seconds=6.0, seen=1, counted=True)


def test_a_seen_end_of_an_epoch_is_told_with_the_pauses_in_it() -> None:
    lines = run_lines(replace(UNSEEN, epoch_restart_s=9.5, pauses=(VALIDATION,)))
    assert lines == ["the end of an epoch costs 9.5 s", "a validation takes 6 s (1 seen), which is counted already"]


@pytest.mark.parametrize(
    ("pauses", "words"),
    [
        ((), "leaves out validation and checkpoints"),
        ((VALIDATION,), "leaves out what else happens there"),
        (
            (replace(VALIDATION, counted=False),),
            "adds a validation of 6 s to each, as seen before the first step, and leaves out checkpoints",
        ),
        (
            (replace(VALIDATION, counted=False, cut_after_batches=2),),
            "leaves out checkpoints and validation (2 of its batches before the first step took 6 s",
        ),
    ],
)
def test_what_nobody_has_seen_is_said(pauses: tuple[Pause, ...], words: str) -> None:
    lines = run_lines(replace(UNSEEN, pauses=pauses))
    assert "the first batch took 3 s" in lines[0] and words in lines[-1]


def test_nothing_is_said_of_the_ends_of_epochs_whose_length_is_not_known() -> None:
    assert run_lines(Measurement(samples_per_s=10.0)) == []
