"""In which order samples come: by the class of the sampler, else by the indices that it gave."""

from __future__ import annotations

import random
from typing import Any

import pytest


class Iterator:
    """As torch's: with its sampler of batches, and the data set."""

    def __init__(self, sampler: Any, length: int = 1000) -> None:
        self._index_sampler = type("Batches", (), {"sampler": sampler})()
        self._dataset = range(length)


def of_torch(name: str, **attributes: Any) -> Any:
    return type(name, (), {"__module__": "torch.utils.data.sampler", **attributes})()


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


def first_told(indices: list[list[Any]], length: int = 1000) -> str | None:
    from _vtune_hooks.order import Order

    order = Order(Iterator(object(), length))
    told = [found for index in indices if (found := order.look(index)) is not None]
    assert len(told) <= 1
    return order.told


def test_a_sampler_of_the_trainings_own_is_known_by_what_it_gives() -> None:
    rising = [[4 * n + k for k in range(4)] for n in range(6)]
    shuffled = random.Random(1).sample(range(1000), 24)
    near = random.Random(1).sample(range(40), 24)
    assert first_told(rising) == "file_order"
    assert first_told([shuffled[n : n + 4] for n in range(0, 24, 4)]) == "shuffled"
    # A buffer that wanders over the data is neither.
    assert first_told([near[n : n + 4] for n in range(0, 24, 4)]) == "unknown"
    assert first_told(rising[:2]) is None
    assert first_told([["a", "b"]]) == "unknown"
