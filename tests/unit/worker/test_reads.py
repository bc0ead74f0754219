"""What a worker tells of its samples and generators: bounded, and nothing of them is changed."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest


def sums(sample: Any) -> Any:
    from _vtune_hooks.content import sums_of

    return sums_of(sample)


def test_samples_are_told_apart_by_their_values_and_labels() -> None:
    image = np.arange(64.0)
    same, other = sums((image, 3)), sums((image + 1, 3))
    assert same == sums([image.copy(), 3]) and same != other
    # The label alone.
    assert same[1] == other[1] == sums(3)[1] != sums(4)[1]
    assert sums({"x": image, "path": "a.npy"})[1] != sums({"x": image, "path": "b.npy"})[1]


@pytest.mark.parametrize("nothing", [None, (), object(), [[None]], [1 << 2000, functools.partial(print)][1:]])
def test_where_there_is_nothing_to_sum_nothing_is_told(nothing: Any) -> None:
    assert sums(nothing) == (None, None)


def test_an_image_is_no_label_and_a_large_mask_is_none_either() -> None:
    assert sums(np.zeros((8, 8), np.int64))[1] is None and sums(np.int64(3))[1] is not None
    assert sums(1.5) == (sums(1.5)[0], None) and sums(b"abc")[1] is None


@pytest.mark.parametrize("shape", [(4_000_000,), (1, 160, 160, 160), (3, 2000, 2000), (100_000, 8)])
def test_of_a_large_array_a_bounded_part_is_read_from_all_over_it(shape: tuple[int, ...]) -> None:
    from _vtune_hooks.content import MOST_VALUES, spread

    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    part = spread(array)
    assert MOST_VALUES / 8 <= part.size <= 4 * MOST_VALUES and np.shares_memory(part, array)
    places = part.ravel() / array.size
    assert places.min() < 0.2 and places.max() > 0.8


def test_an_image_that_is_no_array_is_told_by_some_of_its_pixels() -> None:
    class Image:
        size = (640, 480)

        def __init__(self, shade: int) -> None:
            self.shade = shade

        def getpixel(self, place: tuple[int, int]) -> int:
            assert 0 <= place[0] < 640 and 0 <= place[1] < 480
            return self.shade

    assert sums((Image(1), 3)) == sums((Image(1), 3)) != sums((Image(2), 3))
    assert sums((Image(1), 3))[1] == sums((Image(2), 3))[1]


def test_a_broken_sample_is_left_alone() -> None:
    class Broken(dict[str, int]):
        def values(self) -> Any:
            raise RuntimeError("it is read once")

    assert sums(Broken()) == (None, None)


RNG = np.random.default_rng(5)


class Flip:
    shared = np.random.RandomState(0)

    def __init__(self) -> None:
        self.state = np.random.RandomState(1)


class Patches:
    def __init__(self) -> None:
        self.name = "patches"
        self.rng = np.random.default_rng(0)
        self.steps = [Flip(), functools.partial(print, random.Random(0))]
        self.data = np.zeros(3)

    def __getitem__(self, index: int) -> Any:
        return self.data[index] + RNG.random()


def found_in(dataset: Any) -> dict[str, Any]:
    from _vtune_hooks.generators import generators_of

    return {one.name: one for one in generators_of(dataset)}


def test_the_generators_of_a_data_set_are_found_with_the_lines_that_make_them() -> None:
    found = found_in(Patches())
    assert {"random", "numpy.random"} <= set(found)
    own = {name: one for name, one in found.items() if one.where is not None}
    assert set(own) == {"self.rng", "RNG", "self.steps[0].state", "self.steps[0].shared", "self.steps[1]"}
    lines = {name: line_at(one.where) for name, one in own.items()}
    assert lines["self.rng"].strip() == "self.rng = np.random.default_rng(0)"
    assert lines["RNG"].strip() == "RNG = np.random.default_rng(5)"
    assert lines["self.steps[0].state"].strip() == "self.state = np.random.RandomState(1)"
    assert "self.steps = [" in lines["self.steps[1]"]


def line_at(where: str) -> str:
    file, _, number = where.rpartition(":")
    with open(file) as source:
        return source.read().splitlines()[int(number) - 1]


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "Philox", "MT19937"])
def test_how_far_a_generator_is_along_its_sequence_is_told_and_a_jump_is_far(kind: str) -> None:
    from _vtune_hooks.generators import state_of

    bits = getattr(np.random, kind)
    rng = np.random.Generator(bits(42))
    rng.random(3)
    before = state_of(rng)
    rng.random(40)
    after, jumped = state_of(rng), state_of(np.random.Generator(bits(42).jumped()))
    assert before is not None and after is not None and jumped is not None
    assert before[1] == after[1] and 0 < after[2] - before[2] <= 80
    assert jumped[1] != before[1] or 2**100 < (jumped[2] - before[2]) % 2**128 < 2**128 - 2**100 or kind == "Philox"
    assert kind != "Philox" or jumped[2] - before[2] > 2**100
    if kind.startswith("PCG64"):
        assert after[2] - before[2] == 40


def test_a_closed_over_generator_is_found_too() -> None:
    rng = random.Random(3)

    class Closing:
        def __getitem__(self, index: int) -> float:
            return rng.random()

    assert any(one.generator is rng for one in found_in(Closing()).values())


def test_a_generator_in_the_frame_of_a_running_generator_function_is_found_too() -> None:
    def places() -> Iterator[int]:
        rng = np.random.default_rng(0)
        while True:
            yield int(rng.integers(9))

    class Streaming:
        def __init__(self) -> None:
            self.places = places()

    data_set = Streaming()
    next(data_set.places)
    [found] = [one for one in found_in(data_set).values() if isinstance(one.generator, np.random.Generator)]
    assert found.name == "self.places:rng" and found.where is not None


@pytest.mark.parametrize(
    ("make", "draw", "has_stream"),
    [
        (lambda: np.random.default_rng(0), lambda g: g.random(), True),
        (lambda: np.random.Generator(np.random.MT19937(0)), lambda g: g.random(), True),
        (lambda: np.random.Generator(np.random.SFC64(0)), lambda g: g.random(), False),
        (lambda: np.random.RandomState(0), lambda g: g.rand(), True),
        (lambda: random.Random(0), lambda g: g.random(), True),
    ],
)
def test_a_state_is_read_without_drawing_and_changes_with_each_draw(make: Any, draw: Any, has_stream: bool) -> None:
    from _vtune_hooks.generators import state_of

    looked_at, left_alone = make(), make()
    before = state_of(looked_at)
    assert before == state_of(looked_at) == state_of(make()) and (before[1] is not None) == has_stream
    # MT19937 makes its words with the first draw.
    states = []
    for _ in range(3):
        assert draw(looked_at) == draw(left_alone)
        states.append(state_of(looked_at))
    assert len({before[0], *(one[0] for one in states)}) == 4 and len({one[1] for one in states}) == 1


def test_a_large_tree_of_attributes_is_searched_in_part() -> None:
    from _vtune_hooks.generators import MOST_OBJECTS

    class Node:
        looked_at = 0

        def __init__(self, depth: int) -> None:
            self.below = [Node(depth - 1) for _ in range(9)] if depth else []

        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            Node.looked_at += 1
            return {"below": object.__getattribute__(self, "below")}

    class Top:
        tree = Node(3)

    top = Top()
    vars(top)["tree"] = Top.tree
    found_in(top)
    assert Node.looked_at <= MOST_OBJECTS


def numbers(first: int) -> Iterator[int]:
    for index in itertools.count(first):
        rng = random.Random(index)
        big = [0] * 1000
        yield index + len(big) + int(rng.random())


def through(inner: Iterator[int]) -> Iterator[int]:
    yield from inner


def test_where_a_generator_is_shows_in_its_plain_values_through_those_that_wrap_it() -> None:
    from _vtune_hooks.cursor import cursor_of

    places = []
    for first in (0, 500):
        inner = numbers(first)
        outer = through(inner)
        next(outer)
        values, drawing = cursor_of(outer)
        places.append(values)
        assert [one.name for one in drawing] == ["rng"]
        # It goes on as it would have, and nothing of its sample is kept alive.
        assert next(outer) == first + 1001
    assert set(places[0]) == set(places[1]) and places[0] != places[1]
    assert cursor_of(iter([1, 2])) == ({}, []) and cursor_of(None) == ({}, [])


class Pops:
    def __init__(self) -> None:
        self.records = [1, 2, 3]

    def __getitem__(self, index: int) -> int:
        return self.records.pop()


class Subset:
    """As torch's, by its module."""

    __module__ = "torch.utils.data.dataset"

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __getitem__(self, index: int) -> Any:
        return self.dataset[index]


@pytest.fixture
def told() -> list[dict[str, Any]]:
    return []


def test_a_worker_tells_its_start_and_each_of_its_first_batches_once(told: list[dict[str, Any]]) -> None:
    from _vtune_hooks import reads

    dataset = Subset(Pops())
    looking = reads.Reads(dataset, iterable=False, prepared_by=None, tell=lambda **fields: told.append(fields))
    collate = looking.collating(list)

    class Fetcher:
        auto_collation = True

        def fetch(self, possibly_batched_index: list[int]) -> Any:
            return collate([dataset[index] for index in possibly_batched_index])

    looking.begin()
    assert Fetcher().fetch([5, 9]) == [3, 2]
    looking.end_batch()
    looking.end_batch()
    assert [one["order"] for one in told] == [-1, 0]
    assert (told[0]["takes"], told[1]["takes"]) == ({"records": 3}, {"records": 1})
    assert told[0]["reads_at"] == f"{__file__}:{Pops.__getitem__.__code__.co_firstlineno}"
    assert told[1]["keys"] == [5, 9] and len(told[1]["contents"]) == 2 and looking.spent_s > 0


def test_looking_ends_after_some_batches_and_says_nothing_more(told: list[dict[str, Any]]) -> None:
    from _vtune_hooks import reads

    looking = reads.Reads([1], iterable=False, prepared_by=None, tell=lambda **fields: told.append(fields))
    collate = looking.collating(lambda data: data)
    looking.begin()
    for _ in range(3 * reads.MOST_BATCHES):
        collate([1])
        looking.end_batch()
    assert looking.ends and [one["order"] for one in told] == [-1, *range(reads.MOST_BATCHES)]
    assert ["states" in one for one in told].count(True) == 1 + reads.MOST_STATES


def test_a_data_set_that_cannot_be_looked_at_is_left_alone(told: list[dict[str, Any]]) -> None:
    from _vtune_hooks import reads

    class Broken:
        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            raise RuntimeError("nobody looks at me")

    looking = reads.Reads(Broken(), iterable=False, prepared_by=None, tell=lambda **fields: told.append(fields))
    looking.begin()
    assert looking.ends and told == [] and looking.collating(sum)([1, 2]) == 3
