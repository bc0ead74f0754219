"""Whole numbers that a data set keeps: which are told, and which of them choose its next record."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np
import pytest


class Noise:
    def __init__(self) -> None:
        self.seed = 7


class Keeps:
    def __init__(self) -> None:
        self.at = 3
        self.shuffles = True
        self.state = [1, 2]
        self.words = np.array([5, 6], np.uint64)
        self.size = np.int64(9)
        self.noise = Noise()
        self.records = list(range(100))
        self.images = np.zeros((40, 2), np.int64)
        self.scale = 0.5
        self.huge = 1 << 4000


def test_whole_numbers_are_told_by_name_and_data_is_not() -> None:
    from _vtune_hooks.own_numbers import numbers_of

    assert {name: one.value for name, one in numbers_of(Keeps()).items()} == {
        "self.at": 3, "self.state[0]": 1, "self.state[1]": 2, "self.words[0]": 5, "self.words[1]": 6, "self.size": 9,
        "self.noise.seed": 7,
    }  # fmt: skip


class Base:
    def __init__(self) -> None:
        self.at = 0
        self.order = np.arange(50)[::-1].copy()
        self.data = np.arange(50.0)
        self.names = ["a", "b"]


class Walks(Base):
    def __getitem__(self, index: int) -> float:
        self.at += 1
        return float(self.data[self.order[self.at % 50]])


class ByVariable(Base):
    def __getitem__(self, index: int) -> float:
        self.at = self.at + 1
        place = self.at % 50
        return float(self.data[place])


class Counts(Base):
    def __getitem__(self, index: int) -> float:
        self.at += 1
        if self.at % 100 == 0:
            print(self.names[0], self.at)
        return float(self.data[index])


class CountsAndDraws(Base):
    """It needs no index, and its counter chooses nothing."""

    def __getitem__(self, index: int) -> float:
        self.at += 1
        if self.at % 100 == 0:
            print(self.at)
        return float(np.random.rand())


class Remembers(Base):
    """The counter only chooses where the sample is put."""

    def __getitem__(self, index: int) -> float:
        self.at += 1
        self.data[self.at % 50] = 1.0
        return float(np.random.rand())


class MixesIn(Base):
    """The record is the index's own."""

    def __getitem__(self, index: int) -> float:
        self.at += 1
        return float(self.data[index] + self.data[self.at % 50])


@pytest.mark.parametrize(
    ("kind", "walks"),
    [(Walks, True), (ByVariable, True), (Counts, False), (CountsAndDraws, False), (Remembers, False), (MixesIn, False)],
)
def test_a_counter_walks_where_the_index_is_not_read_and_records_are_looked_up_at_it(kind: Any, walks: bool) -> None:
    from _vtune_hooks.own_numbers import walked_by

    reading = vars(kind)["__getitem__"]
    assert isinstance(reading, FunctionType)
    found = walked_by(kind(), reading, ["self.at"])
    assert set(found) == ({"self.at"} if walks else set())
    other = kind()
    other.order, other.data = np.arange(50), np.arange(1.0, 51.0)
    assert walked_by(kind(), reading, ["self.at"]) == found
    assert not walks or walked_by(other, reading, ["self.at"]) != found


def test_code_whose_source_is_not_there_says_nothing() -> None:
    from _vtune_hooks.own_numbers import walked_by

    made: dict[str, Any] = {}
    exec("def __getitem__(self, index):\n    self.at += 1\n    return self.data[self.at]", made)
    assert walked_by(Base(), made["__getitem__"], ["self.at"]) == {} == walked_by(Base(), None, ["self.at"])
