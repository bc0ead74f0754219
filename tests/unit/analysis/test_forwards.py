"""Where a step gets several batches and goes backward once, the rows of its model tell which of them it used."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.training_log import TrainingLog
from vtune.analysis.another_batch import batch_ratio
from vtune.domain.consumed import NoBatch
from vtune.domain.record import Measurement

# The model's number, and the rows that it is given.
Calls = tuple[tuple[int, int], ...]


def two_batches_to_a_backward(root: Path, calls: Calls, *, of: str = "one loader") -> Measurement:
    """8 samples each of one loader, or 8 and 24 of two. Every seventh step is looked at closely."""
    log = TrainingLog(root)
    log.writer.loader(1, "train.py:9:Unlabelled#0 bbbb")
    log.begin(100)
    log.writer.begin_pass(number=1, loader=1, workers=0, batch=24)
    for at in range(40):
        log.batch(8)
        if of == "one loader":
            log.batch(8)
        else:
            log.writer.deliver(log.now, log.now + 0.004, at, loader=1, pass_number=1, samples=24)
            log.now += 0.005
        if calls and at % 7 == 5:
            told = [(model, rows, log.now + 0.001) for model, rows in calls]
            log.writer.fact("forwards", log.pid, step=at, forwards=told)
        log.backward()
        log.step()
    return log.measured()


@pytest.mark.parametrize(
    ("calls", "batch"),
    [
        ((), None),
        # Put together; and every second one left out.
        (((0, 16),), 16),
        (((0, 8),), 8),
        # Both batches, or two views of one; a model for each, or two for one.
        (((0, 8), (0, 8)), None),
        (((0, 8), (1, 8)), None),
    ],
)
def test_the_rows_of_the_model_tell_batches_put_together_from_those_left_out(
    tmp_path: Path, calls: Calls, batch: int | None
) -> None:
    found = two_batches_to_a_backward(tmp_path, calls)
    assert found.effective_batch == batch
    assert found.consumed is not None
    assert found.consumed.no_batch is (NoBatch.JOINED_OR_SKIPPED if batch is None else None)
    assert batch_ratio(found, found) == (None if batch is None else 1.0)


@pytest.mark.parametrize(("calls", "batch"), [((), None), (((0, 8), (0, 24)), 32), (((0, 32),), 32), (((0, 8),), None)])
def test_the_rows_of_the_model_tell_that_a_step_uses_the_batches_of_both_loaders(
    tmp_path: Path, calls: Calls, batch: int | None
) -> None:
    found = two_batches_to_a_backward(tmp_path, calls, of="two loaders")
    assert found.effective_batch == batch
    assert found.consumed is not None
    assert found.consumed.no_batch is (NoBatch.SEVERAL_LOADERS if batch is None else None)


def test_rates_count_the_batches_that_are_left_out(tmp_path: Path) -> None:
    found = two_batches_to_a_backward(tmp_path / "left out", ((0, 8),)).consumed
    assert found is not None and found.leaves_out
    assert found.mean == 16 and found.by_step == ((8.0, 40),)
    whole = two_batches_to_a_backward(tmp_path / "whole", ((0, 16),)).consumed
    assert whole is not None and not whole.leaves_out
