"""Loaders, optimizers and batches of the user's: named, remembered and measured without being touched."""

from __future__ import annotations

import gc
import math
import mmap
import weakref
from collections import OrderedDict, UserDict
from typing import Any

import pytest


class Thing:
    """Equal to everything, and without a hash: as the user's own classes may be."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


class Array:
    def __init__(self, *shape: int) -> None:
        self.shape = shape

    shape: Any = None


class AnswersAnything:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was looked up")


def test_two_objects_that_are_equal_are_still_two_and_neither_is_kept_alive() -> None:
    from _vtune_hooks.attached import Attached

    attached: Attached[int] = Attached()
    first, second = Thing(), Thing()
    attached.set(first, 1)
    assert attached.get(second) is None
    attached.set(second, 2)
    assert (attached.get(first), attached.get(second)) == (1, 2)
    dead = weakref.ref(first)
    del first
    gc.collect()
    assert dead() is None
    assert attached.values() == [2]
    assert len(attached._entries) == 1


def test_a_later_object_at_the_same_address_is_not_taken_for_the_earlier_one() -> None:
    from _vtune_hooks.attached import Attached

    attached: Attached[int] = Attached()
    for number in range(100):
        thing = Thing()
        assert attached.get(thing) is None
        attached.set(thing, number)
        del thing


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        (Array(5, 3), 5),
        ([Array(4), Array(9)], 4),
        ({"label": "x", "image": Array(7, 1)}, 7),
        (OrderedDict(a=[Array(), (Array(6),)]), 6),
        (UserDict(a=Array(2)), 2),
        ((Array(), Array(3)), 3),
        (["a", "b"], 0),
        (None, 0),
        (["x"] * 100 + [Array(8)], 0),
    ],
)
def test_the_leading_dimension_is_that_of_the_first_array_with_one(batch: Any, size: int) -> None:
    from _vtune_hooks.batches import first_shape, leading_of

    assert leading_of(first_shape(batch)) == size


class Tensor(Array):
    """Of four bytes an element, as torch tells it."""

    def numel(self) -> int:
        return math.prod(self.shape)

    def element_size(self) -> int:
        return 4

    def untyped_storage(self) -> None: ...


@pytest.mark.parametrize(
    ("batch", "handed", "pinned"),
    [
        (Tensor(5, 3), 60, 64),
        ([Tensor(4), {"y": Tensor(8), "name": ["a", "b"]}], 48, 48),
        ([Array(1000)], 0, 0),
        ([AnswersAnything()], 0, 0),
        (None, 0, 0),
    ],
)
def test_the_bytes_of_a_batch_are_those_of_its_tensors_and_pinned_each_is_a_power_of_two(
    batch: Any, handed: int, pinned: int
) -> None:
    from _vtune_hooks.batches import sizes_of

    sizes = sizes_of(batch)
    assert (sizes["bytes"], sizes["pinned_bytes"]) == (handed, pinned)


def test_the_first_sizes_of_the_tensors_and_the_lengths_of_the_lists_that_hold_them_tell_rows_from_samples() -> None:
    from _vtune_hooks.batches import sizes_of

    sizes = sizes_of(([Tensor(3, 20, 20), Tensor(3, 18, 18)], {"y": Tensor(16)}))
    assert sorted(sizes["heads"]) == [[3, 18], [3, 20], [16]]
    assert sizes["lengths"] == [2]
    assert sizes_of([Tensor(8, 3), Tensor(8)])["lengths"] == []


def test_each_tensor_takes_whole_pages_and_parts_of_one_take_all_of_it_once() -> None:
    from _vtune_hooks.batches import sizes_of

    page = mmap.PAGESIZE

    class Storage:
        def __init__(self, place: int, size: int) -> None:
            self.place, self.size = place, size

        def data_ptr(self) -> int:
            return self.place

        def nbytes(self) -> int:
            return self.size

    class Stored(Tensor):
        def __init__(self, storage: Storage, *shape: int) -> None:
            super().__init__(*shape)
            self.storage = storage

        def untyped_storage(self) -> Storage:  # type: ignore[override]
            return self.storage

    large, small = Storage(1, 3 * page), Storage(2, 8)
    assert sizes_of([Stored(large, 5), Stored(large, 7), Stored(small, 2)])["segment_bytes"] == 4 * page
    # Nobody tells where it lies: it has a segment of its own.
    assert sizes_of([Tensor(5, 3), Tensor(1)])["segment_bytes"] == 2 * page


def test_an_object_that_is_no_array_is_not_asked_anything() -> None:
    from _vtune_hooks.batches import first_shape

    assert first_shape([AnswersAnything()]) is None


def keys_of(*events: tuple[str, Any]) -> list[str]:
    from _vtune_hooks.identity import Keys, Place

    keys, found = Keys(), []
    for what, thing in events:
        if what == "made":
            found.append(keys.give(thing, [], Place(file="/far/away/train.py", line=8, stack_hash="0a")))
        elif what == "iterated":
            keys.iterated(*thing)
        else:
            keys.gave(thing)
    return found


def test_a_key_has_file_line_data_set_and_stack_but_no_folder() -> None:
    assert keys_of(("made", Array())) == ["train.py:8:list#0@0a"]


def ordinals(*events: tuple[str, Any]) -> list[int]:
    return [int(key.split("#")[1].split("@")[0]) for key in keys_of(*events)]


def walked(loader: Any) -> list[tuple[str, Any]]:
    """Its iterator is made, and gives a batch."""
    iterator = Array()
    return [("iterated", (loader, iterator)), ("gave", iterator)]


def test_a_loader_made_anew_after_the_first_gave_a_batch_has_the_same_key() -> None:
    first, second = Array(), Array()
    assert ordinals(("made", first), *walked(first), ("made", second)) == [0, 0]


def test_twins_made_before_either_gave_a_batch_have_two_keys_in_each_epoch() -> None:
    a, b, c, d = (Array() for _ in range(4))
    events = [("made", a), ("made", b), *walked(a), *walked(b), ("made", c), ("made", d)]
    assert ordinals(*events) == [0, 1, 0, 1]


def test_an_iterator_that_has_given_nothing_keeps_its_loaders_place() -> None:
    """`[iter(DataLoader(task)) for task in tasks]`: nobody holds the loaders."""
    from _vtune_hooks.identity import Keys, Place

    keys, place = Keys(), Place(file="train.py", line=8, stack_hash="0a")
    iterators: list[Array] = []
    found = []
    for _ in range(3):
        loader = Array()
        found.append(keys.give(loader, [], place))
        iterators.append(Array())
        keys.iterated(loader, iterators[-1])
    assert [key.split("#")[1][0] for key in found] == ["0", "1", "2"]
    del iterators[1]
    assert "#1@" in keys.give(Array(), [], place)


def test_a_loader_that_was_thrown_away_is_nobodys_twin() -> None:
    from _vtune_hooks.identity import Keys, Place

    keys = Keys()
    for _ in range(3):
        assert "#0@" in keys.give(Array(), [], Place(file="train.py", line=8, stack_hash="0a"))


def test_places_differ_by_line_and_agree_by_stack() -> None:
    import sys

    from _vtune_hooks.identity import place_of_caller

    def make() -> Any:
        return place_of_caller(sys._getframe())

    same = [make() for _ in range(2)]
    other = make()
    assert same[0] == same[1]
    assert same[0].stack_hash != other.stack_hash
    assert same[0].where.startswith(__file__)
