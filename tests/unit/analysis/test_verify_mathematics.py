from __future__ import annotations

from pathlib import Path

import pytest

from support.trial_writer import PID, TrialWriter
from vtune.analysis.roles import Roles, find_roles
from vtune.analysis.verify_mathematics import contradiction, unverified
from vtune.domain.effects import Scalar
from vtune.domain.events import Fact
from vtune.journal.step_log import StepLog

IN_FP32 = {"autocast": False, "autocast_dtype": None, "parameters": "float32", "threads": 1, "compiled": False}


def accumulating(root: Path, batches: int, steps: int = 12) -> Roles:
    """So many batches of the loader by optimizer step."""
    writer = TrialWriter(root)
    writer.hello()
    writer.loader()
    writer.begin_pass()
    for number in range(steps * batches):
        writer.deliver(number, number + 0.5, number)
        if number % batches == batches - 1:
            writer.step(number + 0.9)
    log = StepLog(writer.paths)
    log.refresh()
    found = find_roles(log.steps, log.delivered, log.facts)
    assert found is not None
    return found


def told(name: str, **data: object) -> list[Fact]:
    return [Fact(pid=PID, t_s=0.0, name=name, data=data)]


@pytest.mark.parametrize(
    ("wanted", "batches", "passes", "words"),
    [
        (2, 2, 2, None),
        (2, 1, 1, "asked for accumulate_steps=2, the training ran with 1 batch by optimizer step"),
        (1, 2, 2, "asked for accumulate_steps=1, the training ran with 2 batches by optimizer step"),
        # Each batch is split into four passes; each pass takes two batches.
        (4, 1, 4, None),
        (2, 4, 2, None),
    ],
)
def test_accumulation_that_was_asked_for_must_be_that_of_the_batches_or_of_the_passes(
    tmp_path: Path, wanted: int, batches: int, passes: int, words: str | None
) -> None:
    roles, asked = accumulating(tmp_path, batches), {"accumulate_steps": wanted}
    assert contradiction(asked, roles, (), 12 * passes) == words
    assert unverified(asked, roles, (), 12 * passes) == ()


def test_where_no_backward_was_seen_fewer_batches_prove_nothing(tmp_path: Path) -> None:
    roles = accumulating(tmp_path, 1)
    assert contradiction({"accumulate_steps": 2}, roles, (), 0) is None
    assert unverified({"accumulate_steps": 2}, roles, (), 0) == ("accumulate_steps=2",)


@pytest.mark.parametrize(
    ("asked", "seen", "ran_with"),
    [
        ({"precision": "bf16"}, {"autocast": True, "autocast_dtype": "bfloat16"}, None),
        ({"precision": "bf16"}, {"parameters": "bfloat16"}, None),
        ({"precision": "bf16"}, {}, "weights in float32 and no autocast to another type"),
        ({"precision": "fp16"}, {"autocast": True, "autocast_dtype": "bfloat16"}, "autocast to bfloat16"),
        ({"precision": "fp32"}, {}, None),
        ({"precision": "fp32"}, {"autocast": True, "autocast_dtype": "float16"}, "autocast to float16"),
        ({"threads": 1}, {}, None),
        ({"threads": 4}, {}, "1 threads"),
        ({"compile": True}, {"compiled": True}, None),
        ({"compile": True}, {}, "nothing compiled"),
        ({"compile": False}, {}, None),
    ],
)
def test_what_was_seen_where_the_model_computes_must_be_what_was_asked(
    tmp_path: Path, asked: dict[str, Scalar], seen: dict[str, object], ran_with: str | None
) -> None:
    roles, facts = accumulating(tmp_path, 1), told("precision", **{**IN_FP32, **seen})
    wrong = contradiction(asked, roles, facts, 12)
    assert (wrong is None) == (ran_with is None)
    assert wrong is None or wrong.endswith(f"the training ran with {ran_with}")
    assert unverified(asked, roles, facts, 12) == ()


@pytest.mark.parametrize(
    "asked",
    [
        {"precision": "bf16"},
        {"channels_last": True},
        {"gradient_checkpointing": True},
        {"filters": 16},
        {"patch_size": 64},
        {"threads": 2},
        {"compile": True},
    ],
)
def test_what_nobody_saw_is_neither_right_nor_wrong(tmp_path: Path, asked: dict[str, Scalar]) -> None:
    roles = accumulating(tmp_path, 1)
    assert contradiction(asked, roles, (), 12) is None
    assert len(unverified(asked, roles, (), 12)) == 1


def test_a_patch_is_verified_by_the_longest_edge_of_a_batch(tmp_path: Path) -> None:
    roles, facts = accumulating(tmp_path, 1), told("shape", loader=0, shape=[2, 1, 48, 96, 96])
    assert unverified({"patch_size": 96}, roles, facts, 12) == ()
    assert unverified({"patch_size": 64}, roles, facts, 12) == ("patch_size=64",)
    assert contradiction({"patch_size": 64}, roles, facts, 12) is None


def test_what_only_the_user_knows_nobody_has_seen(tmp_path: Path) -> None:
    roles = accumulating(tmp_path, 1)
    asked: dict[str, Scalar] = {"workers": 2, "flip": 0.5, "accumulate_steps": 1}
    assert contradiction(asked, roles, (), 12) is None
    assert unverified(asked, roles, (), 12) == ("flip=0.5",)
