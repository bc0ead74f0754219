from pathlib import Path

import pytest

from support.trial_writer import PID, TrialWriter
from vtune.analysis.roles import find_roles
from vtune.journal.step_log import StepLog


def roles_of(writer: TrialWriter):
    log = StepLog(writer.paths)
    log.refresh()
    return find_roles(log.steps, log.delivered, log.facts)


def test_no_step_means_no_roles(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.deliver(0.0, 0.1)
    assert roles_of(writer) is None


def test_a_validation_loader_that_runs_first_is_not_the_trainings(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader(0, "train.py:5:Val#0")
    writer.loader(1, "train.py:4:Train#0")
    for j in range(50):
        writer.deliver(j * 0.01, j * 0.01 + 0.001, j, loader=0)
    for j in range(20):
        writer.deliver(1 + j, 1 + j + 0.1, j, loader=1, pass_number=1)
        writer.step(2.0 + j)
    roles = roles_of(writer)
    assert roles.train.key == "train.py:4:Train#0"
    assert roles.train.share == 1.0
    assert [other.key for other in roles.others] == ["train.py:5:Val#0"]


def test_loaders_made_anew_each_epoch_are_one(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    for epoch in range(3):
        writer.loader(epoch, "train.py:8:Train#0")
        for j in range(5):
            now = epoch * 5 + j
            writer.deliver(now, now + 0.1, j, loader=epoch, pass_number=epoch)
            writer.step(now + 1.0)
    roles = roles_of(writer)
    assert roles.train.numbers == {0, 1, 2}
    assert len(roles.batches) == 15


def test_the_primary_optimizer_is_the_one_with_most_steps_then_most_parameters(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.fact("optimizer", optimizer=0, parameters=10)
    writer.fact("optimizer", optimizer=1, parameters=1000)
    writer.loader()
    for j in range(10):
        writer.deliver(j, j + 0.1, j)
        writer.step(j + 0.5, optimizer=0)
        writer.step(j + 0.9, optimizer=1)
    assert roles_of(writer).optimizer == 1


def test_a_process_that_stepped_a_little_is_not_a_rank(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    for j in range(20):
        writer.step(float(j))
    writer.step(1.0, pid=PID + 5)
    roles = roles_of(writer)
    assert roles.ranks == (PID,) and roles.pid == PID


@pytest.mark.parametrize("grad", [True, False])
def test_the_only_loader_feeds_however_many_steps_share_its_batch(tmp_path: Path, grad: bool) -> None:
    """A batch of 64 cut into 8 optimizer steps; a validation comes between."""
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader(0, "train.py:4:Train#0")
    writer.loader(1, "train.py:5:Val#0")
    for j in range(120):
        if j % 8 == 0:
            writer.deliver(j, j + 0.1, j // 8, loader=0, flags=5 if grad else 1)
        if j % 20 == 10:
            writer.deliver(j + 0.1, j + 0.2, j // 20, loader=1, pass_number=1, flags=1)
        writer.step(j + 0.9)
    roles = roles_of(writer)
    assert (roles.train is not None) == grad
    assert [other.key for other in roles.others][-1] == "train.py:5:Val#0"


@pytest.mark.parametrize("at", [(0, 1, 2), (10, 50, 55)])
def test_a_loader_that_delivers_now_and_then_feeds_nothing(tmp_path: Path, at: tuple[int, ...]) -> None:
    """A warm-up from a loader, and then a buffer of the script's own."""
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    for j in range(60):
        if j in at:
            writer.deliver(j, j + 0.1, j)
        writer.step(j + 0.9)
    assert roles_of(writer).train is None
