from __future__ import annotations

from pathlib import Path

import pytest

from support.training_log import TrainingLog
from support.trial_writer import TrialWriter
from vtune.analysis.roles import Roles, find_roles
from vtune.analysis.verify import mismatch
from vtune.journal.step_log import StepLog


def roles(tmp_path: Path, **effective: object) -> Roles:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    writer.fact("pass", **{"pass": 0}, loader=0, begun=0.0, length=9, effective={"batch_size": 2, **effective})
    for j in range(5):
        writer.deliver(j, j + 0.5, j)
        writer.step(j + 1.0)
    log = StepLog(writer.paths)
    log.refresh()
    found = find_roles(log.steps, log.delivered, log.facts)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("effective", "wanted", "words"),
    [
        ({"num_workers": 2, "in_order": False}, False, None),
        ({"num_workers": 2, "in_order": True}, False, "asked for in_order=false"),
        ({"num_workers": 0, "in_order": True}, False, "runs without workers"),
        ({"num_workers": 0, "in_order": True}, True, None),
    ],
)
def test_an_order_that_was_asked_for_must_be_the_loaders(
    tmp_path: Path, effective: dict[str, object], wanted: bool, words: str | None
) -> None:
    told = mismatch({"in_order": wanted}, roles(tmp_path, **effective))
    assert (told is None) == (words is None)
    assert words is None or (told is not None and words in told)


@pytest.mark.parametrize(
    ("sizes", "is_wrong"), [([16] * 9 + [5], False), ([8] * 9 + [5], True), ([8, 12, 16, 24, 32] * 2, False)]
)
def test_batches_of_the_scripts_own_sampler_are_held_against_what_was_asked_unless_they_vary(
    tmp_path: Path, sizes: list[int], is_wrong: bool
) -> None:
    log = TrainingLog(tmp_path)
    log.epoch(sizes)
    found = log.observed().roles
    assert found is not None and (mismatch({"batch_size": 16}, found) is not None) == is_wrong
