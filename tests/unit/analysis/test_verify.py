from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.training_log import TrainingLog
from support.trial_writer import TrialWriter
from vtune.analysis.roles import Roles, find_roles
from vtune.analysis.verify import mismatch, read_twice
from vtune.domain.events import Fact
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


def gave(pid: int, *digests: int) -> list[Fact]:
    return [
        Fact(pid=pid, t_s=0.0, name="first_batch", data={"worker": 0, "index": at, "digest": digest})
        for at, digest in enumerate(digests)
    ]


@pytest.mark.parametrize(
    ("given", "twice"),
    [
        ([gave(7, 1, 2), gave(8, 1, 2)], True),
        # Split: each has its own.
        ([gave(7, 1, 3), gave(8, 2, 4)], False),
        # One alone, or equal in the first only.
        ([gave(7, 1, 2)], False),
        ([gave(7, 1, 2), gave(8, 1, 3)], False),
        # All batches of this data set look alike: nothing can be told.
        ([gave(7, 1, 1), gave(8, 1, 1)], False),
        # Another loader's workers.
        ([gave(7, 1, 2), gave(9, 1, 2)], False),
    ],
)
def test_workers_that_give_the_same_batches_read_the_same_samples(
    tmp_path: Path, given: list[list[Fact]], twice: bool
) -> None:
    found = replace(roles(tmp_path), passes=tuple(replace(one, worker_pids=(7, 8)) for one in roles(tmp_path).passes))
    told = read_twice(found, [fact for facts in given for fact in facts])
    assert (told is not None) == twice
    assert told is None or told.startswith("2 workers of the loader at ")
