"""A batch that is fed again: a fresh copy each time, and twice as large where it is made of samples."""

from __future__ import annotations

from collections import UserDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

Pair = namedtuple("Pair", ["image", "label"])


@dataclass(frozen=True)
class Batch:
    image: Any
    weight: float


@pytest.fixture
def cached_batch() -> Any:
    from _vtune_hooks import cached_batch

    return cached_batch


def images(size: int = 2) -> np.ndarray:
    return np.arange(size * 3, dtype=float).reshape(size, 3)


def test_a_copy_shares_nothing_with_its_original(cached_batch: Any) -> None:
    batch = {"x": [images(), images()], "pair": Pair(images(), 1), "user": Batch(images(), 0.5)}
    copied = cached_batch.fresh_copy(batch)
    for array in (copied["x"][0], copied["pair"].image, copied["user"].image):
        array -= 100
    assert np.array_equal(batch["x"][0], images()) and np.array_equal(batch["pair"].image, images())
    assert np.array_equal(batch["user"].image, images())
    assert type(copied["pair"]) is Pair and type(copied["user"]) is Batch


@pytest.mark.parametrize(
    "make",
    [
        lambda size: images(size),
        lambda size: [images(size), images(size)],
        lambda size: (images(size), {"name": ["scan"] * size, "scale": 2.0}),
        lambda size: Pair(images(size), images(size)),
        lambda size: {"deep": {"deeper": (images(size),)}},
        lambda size: Batch(images(size), 0.5),
        # Of objects that differ in shape there can only be a list.
        lambda size: [images(size), [np.zeros(5 + n % 2) for n in range(size)]],
    ],
    ids=["array", "two", "strings", "namedtuple", "nested", "dataclass", "ragged"],
)
def test_doubling_gives_what_a_loader_of_twice_the_size_would_look_like(cached_batch: Any, make: Any) -> None:
    doubled, left = cached_batch.doubled(make(2), {2})
    again, _ = cached_batch.doubled(doubled, {4})
    assert not left
    assert shape_of(doubled) == shape_of(make(4)) and shape_of(again) == shape_of(make(8))


def shape_of(thing: Any) -> Any:
    if isinstance(thing, np.ndarray):
        return thing.shape
    if isinstance(thing, dict):
        return {key: shape_of(value) for key, value in thing.items()}
    if isinstance(thing, Batch):
        return (Batch, shape_of(thing.image), thing.weight)
    if isinstance(thing, (list, tuple)):
        return (type(thing), *map(shape_of, thing))
    return thing


def test_what_is_not_made_of_samples_stays_and_is_said(cached_batch: Any) -> None:
    (image, weights, spacing), left = cached_batch.doubled((images(4), np.ones(7), np.float64(1.0)), {4})
    assert image.shape == (8, 3) and weights.shape == (7,) and spacing == 1.0
    assert left == ["a ndarray of shape (7,)"]


def test_crops_of_a_sample_and_samples_are_both_doubled(cached_batch: Any) -> None:
    (crops, labels), left = cached_batch.doubled((images(8), np.zeros(2)), {8, 2})
    assert len(crops) == 16 and len(labels) == 4 and not left


def test_a_mapping_of_the_users_own_kind_stays_one(cached_batch: Any) -> None:
    doubled, _ = cached_batch.doubled(UserDict(x=images(2)), {2})
    assert type(doubled) is UserDict and len(doubled["x"]) == 4


@pytest.mark.parametrize("batch", [object(), "text", 3, {"a": 1}, np.float64(2.0)])
def test_where_nothing_can_be_doubled_that_is_the_answer(cached_batch: Any, batch: Any) -> None:
    with pytest.raises(cached_batch.CannotBeDoubled, match="leading dimension"):
        cached_batch.doubled(batch, {2})


def test_an_array_of_a_kind_that_cannot_be_put_together_is_named(cached_batch: Any) -> None:
    class Ragged:
        shape = (2, None)

    with pytest.raises(cached_batch.CannotBeDoubled, match="Ragged"):
        cached_batch.doubled(Ragged(), {2})


def test_the_size_is_that_which_most_arrays_share(cached_batch: Any) -> None:
    assert cached_batch.size_of([images(4), images(4), np.ones(7), "name"]) == 4
    assert cached_batch.size_of("name") == 0
    assert cached_batch.bytes_of([images(4), {"x": images(2)}]) == (12 + 6) * 8
