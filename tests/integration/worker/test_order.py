"""Loaders that hand out what is ready: each batch is still known by its number, and its cost with it."""

from __future__ import annotations

from typing import Any

import pytest

LOADED, DELIVERED = 1, 2

pytestmark = pytest.mark.slow


def printed(run: Any) -> list[tuple[int, int]]:
    return [(int(epoch), int(number)) for epoch, number in map(str.split, run.stdout.splitlines())]


@pytest.mark.parametrize("persistent", [(), ("--persistent",)], ids=["anew", "persistent"])
def test_batches_taken_out_of_order_carry_the_number_under_which_a_worker_made_them(
    train: Any, persistent: Any
) -> None:
    run = train("out_of_order.py", *persistent)
    assert run.exit_code == 0, run.stderr
    assert run.facts("problem") == []
    came = printed(run)
    assert sorted(came) == [(epoch, number) for epoch in range(2) for number in range(22)]
    assert came != sorted(came), "this run kept its order by chance"
    batches = run.records(DELIVERED)
    assert [(batch.group, batch.index) for batch in batches] == came
    # Samples, too: the last batch has one.
    assert [batch.n2 for batch in batches] == [1 if number == 21 else 2 for _, number in came]
    finished = {(one.pid, one.group, one.index): one.b for one in run.records(LOADED)}
    passes = {one["pass"]: one for one in run.facts("pass")}
    for batch in batches:
        one_pass = passes[batch.group]
        [made] = [
            finished[pid, one_pass["resume"], batch.index]
            for pid in one_pass["worker_pids"]
            if (pid, one_pass["resume"], batch.index) in finished
        ]
        assert made <= batch.b


def test_order_is_given_up_where_it_was_asked_and_the_loader_has_workers(train: Any) -> None:
    learnt = train("out_of_order.py", "--in-order")
    assert printed(learnt) == sorted(printed(learnt))
    key = learnt.facts("loader")[0]["key"]
    effect = {"kind": "SetDataLoaderOption", "loader": key, "option": "in_order", "value": False}
    turned = train("out_of_order.py", "--in-order", effects=[effect])
    [loader] = turned.facts("loader")
    assert (loader["asked"]["in_order"], loader["effective"]["in_order"]) == (True, False)
    assert loader["turned"] == {"in_order": False}
    assert printed(turned) != sorted(printed(turned))
    without = train("out_of_order.py", "--in-order", "--workers", 0, effects=[effect])
    [loader] = without.facts("loader")
    assert loader["left_alone"] == {"in_order": "the loader has no workers"}


def test_the_shapes_of_a_loaders_batches_are_told_once_each(train: Any) -> None:
    run = train("out_of_order.py", "--workers", 0)
    assert [fact["shape"] for fact in run.facts("shape")] == [[2, 1, 4, 5, 6], [1, 1, 4, 5, 6]]
    assert {one["samples"] for one in run.facts("pass")} == {43}
