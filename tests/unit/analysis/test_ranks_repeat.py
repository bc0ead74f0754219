"""Ranks that read the same data, and those that share it out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from vtune.analysis.ranks_repeat import ranks_that_repeat
from vtune.analysis.roles import Loader, Roles, TrainPass
from vtune.domain.events import Fact
from vtune.domain.repeated import RanksRepeat

KEY, MADE_AT, READ_AT = "train.py:8:Patches#0 aaaa", "train.py:8", "data.py:20"
LEADER, PEER = 4000, 5000
ITEMS = 200
FIRST, SECOND = list(range(100, 116)), list(range(300, 316))


def roles(*, samples: int | None = ITEMS) -> Roles:
    train = Loader(key=KEY, numbers=frozenset({0}), where=MADE_AT, dataset="Patches", share=1.0)
    walk = TrainPass(
        number=0, begun_s=0.0, length=None, worker_pids=(LEADER + 1,), resume=0, settings={"workers": 1},
        sampler_samples=samples,
    )  # fmt: skip
    return Roles(
        pid=LEADER, steps=(), optimizer=0, train=train, passes=(walk,), batches=(), others=(), other_batches=(),
        peers_worker_pids=(PEER + 1,), ranks=(LEADER, PEER),
    )  # fmt: skip


def a_rank(
    pid: int, contents: Sequence[int], keys: Sequence[int] | None = None, *, attributes: int | None = 7,
    workers: bool = True, cursor: int = 0,
) -> list[Fact]:  # fmt: skip
    by_index = keys is not None
    data: dict[str, Any] = {"key": KEY, "loader": 0, "iterable": not by_index}
    facts = [Fact(pid=pid, t_s=0.0, name="loader", data=data)]
    facts.append(
        Fact(pid=pid, t_s=0.0, name="pass", data={"loader": 0, "pass": 0, "worker_pids": [pid + 1] if workers else []})
    )
    teller, also = (pid + 1, {"worker": 0}) if workers else (pid, {"pass": 0})
    start = {"order": -1, "reads_at": READ_AT, **({"items": ITEMS, "attributes": attributes} if by_index else {})}
    facts.append(Fact(pid=teller, t_s=0.0, name="reads", data={**also, **start}))
    for order in range(len(contents) // 4):
        part = slice(4 * order, 4 * order + 4)
        told: dict[str, Any] = {**also, "order": order, "contents": list(contents[part])}
        told |= {"keys": list(keys[part])} if keys is not None else {"cursor": {"1.at": cursor + order}}
        facts.append(Fact(pid=teller, t_s=0.0, name="reads", data=told))
    return facts


def found(*ranks: list[Fact], samples: int | None = ITEMS) -> RanksRepeat | None:
    return ranks_that_repeat(roles(samples=samples), [fact for facts in ranks for fact in facts])


@pytest.mark.parametrize("workers", [True, False])
@pytest.mark.parametrize(
    ("keys", "other_keys", "contents", "attributes", "samples", "repeats"),
    [
        # Each has a shuffle of its own, over the whole of equal data sets.
        (FIRST, SECOND, SECOND, 7, ITEMS, True),
        # In file order: the same samples of the same indices.
        (FIRST, FIRST, FIRST, 7, ITEMS, True),
        # The data set asks for its rank when it reads.
        (FIRST, FIRST, SECOND, 7, ITEMS, False),
        # It holds another part of the data, or its sampler goes over a part of it.
        (FIRST, SECOND, SECOND, 8, ITEMS, False),
        (FIRST, SECOND, SECOND, 7, ITEMS // 2, False),
        (FIRST, SECOND, SECOND, None, ITEMS, False),
        (FIRST, SECOND, SECOND, 7, None, False),
    ],
)
def test_ranks_that_each_go_over_a_whole_data_set_repeat_it(
    keys: Any, other_keys: Any, contents: Any, attributes: Any, samples: Any, repeats: bool, workers: bool
) -> None:
    told = found(
        a_rank(LEADER, FIRST, keys, attributes=7 if attributes is not None else None, workers=workers),
        a_rank(PEER, contents, other_keys, attributes=attributes, workers=workers),
        samples=samples,
    )
    assert told == (RanksRepeat(ranks=2, dataset="Patches", where=MADE_AT, items=ITEMS) if repeats else None)


@pytest.mark.parametrize(
    ("contents", "cursor", "repeats"),
    [
        (FIRST, 0, True),
        (SECOND, 0, False),
        # A part of a small data set that looks alike: its counter is elsewhere.
        (FIRST, 500, False),
        # A few samples over and over show nothing.
        ([1, 2, 3, 4] * 4, 0, False),
    ],
)
def test_ranks_of_an_iterable_data_set_are_compared_by_what_they_gave(
    contents: list[int], cursor: int, repeats: bool
) -> None:
    first = FIRST if len(set(contents)) > 4 else contents
    told = found(a_rank(LEADER, first), a_rank(PEER, contents, cursor=cursor))
    assert told == (RanksRepeat(ranks=2, dataset="Patches", where=READ_AT) if repeats else None)


def test_one_process_and_a_rank_that_told_nothing_repeat_nothing() -> None:
    assert found(a_rank(LEADER, FIRST, FIRST)) is None
    silent = [fact for fact in a_rank(PEER, FIRST, FIRST) if fact.name != "reads"]
    assert found(a_rank(LEADER, FIRST, FIRST), silent) is None
