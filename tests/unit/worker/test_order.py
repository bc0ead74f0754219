"""In which order samples come: by the class of the sampler, else by the indices that it gave."""

from __future__ import annotations

import random
from typing import Any

import pytest


def of_torch(name: str, **attributes: Any) -> Any:
    return type(name, (), {"__module__": "torch.utils.data.sampler", **attributes})()


class Iterator:
    """As torch's, with its sampler of batches."""

    def __init__(self, sampler: Any) -> None:
        self._index_sampler = of_torch("BatchSampler", sampler=sampler)


@pytest.mark.parametrize(
    ("sampler", "order"),
    [
        (of_torch("RandomSampler"), "shuffled"),
        (of_torch("SubsetRandomSampler"), "shuffled"),
        (of_torch("SequentialSampler"), "file_order"),
        (of_torch("DistributedSampler", shuffle=True), "shuffled"),
        (of_torch("DistributedSampler", shuffle=False), "file_order"),
        (of_torch("_InfiniteConstantSampler"), "unknown"),
        (object(), None),
    ],
)
def test_torchs_own_samplers_are_known_by_their_class(sampler: Any, order: str | None) -> None:
    from _vtune_hooks.order import Order

    assert Order(Iterator(sampler)).told == order


def first_told(indices: list[list[Any]]) -> str | None:
    from _vtune_hooks.order import Order

    order = Order(Iterator(object()))
    told = [found for index in indices if (found := order.look(index)) is not None]
    assert len(told) <= 1
    return order.told


def test_a_sampler_of_the_trainings_own_is_known_by_what_it_gives() -> None:
    rising = [[4 * n + k for k in range(4)] for n in range(6)]
    shuffled = random.Random(1).sample(range(1000), 24)
    assert first_told(rising) == "file_order"
    # Random ones, and those of a sampler that sorts by length, look alike.
    assert first_told([shuffled[n : n + 4] for n in range(0, 24, 4)]) == "unknown"
    assert first_told(rising[:2]) is None
    assert first_told([["a", "b"]]) == "unknown"


def test_a_batch_sampler_of_the_trainings_own_may_sort_what_its_inner_sampler_gives() -> None:
    from _vtune_hooks.order import Order

    iterator = Iterator(of_torch("RandomSampler"))
    iterator._index_sampler = type("ShortOnesFirst", (), {"sampler": of_torch("RandomSampler")})()
    assert Order(iterator).told is None
