"""Does a data set keep what it reads? Its containers are counted, never read."""

from __future__ import annotations

import functools
from typing import Any

import pytest


class Plain:
    def __init__(self) -> None:
        self.files = [f"{n}.npy" for n in range(5000)]
        self.table = {n: n for n in range(5000)}

    def read(self, index: int) -> object:
        return self.files[index]


class InDict(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[int, object] = {}

    def read(self, index: int) -> object:
        return self.cache.setdefault(index, object())


class InPlaces(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[object] = [None] * 5000

    def read(self, index: int) -> object:
        self.kept[index] = self.kept[index] or object()
        return self.kept[index]


class ByFunction(Plain):
    @functools.cache  # noqa: B019  as trainings have it
    def read(self, index: int) -> object:
        return object()


class Around(Plain):
    """A transform around another data set."""

    def __init__(self) -> None:
        super().__init__()
        self.dataset = InDict()

    def read(self, index: int) -> object:
        return self.dataset.read(index)


class CountsOnly(Plain):
    """An entry now and then is no cache."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[int] = []

    def read(self, index: int) -> object:
        if index % 16 == 0:
            self.log.append(index)
        return index


def grows(dataset: Any, batches: int = 64, size: int = 4) -> str | None:
    from _vtune_hooks.kept_samples import KeptSamples

    kept, found = KeptSamples(dataset), None
    for batch in range(batches):
        if not kept.over:
            found = kept.begin(size) or found
        for place in range(size):
            dataset.read(size * batch + place)
    return found


@pytest.mark.parametrize(
    ("dataset", "name"),
    [
        (Plain(), None),
        (InDict(), "cache"),
        (InPlaces(), "kept"),
        (ByFunction(), "read"),
        (Around(), "dataset.cache"),
        (CountsOnly(), None),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, str) else one,
)
def test_what_grows_with_the_samples_is_named(dataset: Any, name: str | None) -> None:
    assert grows(dataset) == name


def test_eight_batches_are_enough_and_a_second_epoch_of_kept_samples_shows_nothing() -> None:
    assert grows(InDict(), batches=8) == "cache"
    dataset = InDict()
    for index in range(300):
        dataset.read(index)
    assert grows(dataset) is None


def test_looking_stops_and_calls_nothing_of_the_data_set() -> None:
    from _vtune_hooks.kept_samples import LOOKS, KeptSamples

    class Strange:
        def __len__(self) -> int:
            raise AssertionError("called")

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name)

    kept = KeptSamples(Strange())
    assert [kept.begin(1) for _ in range(LOOKS[-1])] == [None] * LOOKS[-1] and kept.over
