"""What is told of a loader's batches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


class Broken(Mapping[str, Any]):
    """A user's own, which cannot be listed."""

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("it is read once")

    def __len__(self) -> int:
        return 1


class Array:
    shape = (4, 3)
    untyped_storage = None

    def numel(self) -> int:
        return 12

    def element_size(self) -> int:
        return 4


@pytest.fixture
def passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    from _vtune_hooks import passes, recorder

    monkeypatch.setattr(recorder, "here", recorder.Process(str(tmp_path), silent=False))
    monkeypatch.setattr(passes, "_shapes", {})
    return passes


def told(folder: Path, name: str) -> list[dict[str, Any]]:
    from _vtune_hooks import recorder

    recorder.flush(wait=True)
    lines = [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    return [line for line in lines if line["fact"] == name]


def test_a_batch_that_cannot_be_searched_has_its_shape_told_without_a_size(passes: Any, tmp_path: Path) -> None:
    found = SimpleNamespace(loader=0, seen=SimpleNamespace(shape=None))
    passes.tell_shape(found, (4, 3), (Array(), Broken()))
    (shape,) = told(tmp_path, "shape")
    assert shape["shape"] == [4, 3] and "bytes" not in shape
    (problem,) = told(tmp_path, "problem")
    assert "it is read once" in json.dumps(problem)


def test_a_batch_has_the_bytes_of_all_its_tensors_and_is_told_once(passes: Any, tmp_path: Path) -> None:
    found = SimpleNamespace(loader=0, seen=SimpleNamespace(shape=None))
    for _ in range(2):
        passes.tell_shape(found, (4, 3), (Array(), {"y": Array()}))
    (shape,) = told(tmp_path, "shape")
    assert (shape["bytes"], shape["pinned_bytes"]) == (96, 128)


class Part:
    """A data set of a user's, over one part of the data."""

    def __init__(self, files: list[str], scale: float = 1.0) -> None:
        self.files, self.scale, self.read_by = files, scale, object()

    def __getitem__(self, index: int) -> str:
        raise AssertionError("nothing of the user's is called")

    __len__ = __eq__ = __hash__ = __getitem__  # type: ignore[assignment]


def numbers(*data: Any) -> list[int | None]:
    from _vtune_hooks import data_sets

    return [data_sets.number_of(one) for one in data]


def test_a_data_set_made_anew_with_the_same_attributes_has_the_same_number() -> None:
    one, again, other = Part(["a", "b"]), Part(["a", "b"]), Part(["c", "d"])
    first, second, third = numbers(one, again, other)
    assert first == second != third
    one.files = ["x"]
    assert numbers(one) == [first]


def test_parts_of_one_data_set_are_told_apart() -> None:
    class Subset:
        def __init__(self, dataset: Any, indices: Any) -> None:
            self.dataset, self.indices = dataset, indices

    whole = Part(["a"])
    assert len(set(numbers(*(Subset(whole, range(at, at + 10)) for at in range(0, 50, 10))))) == 5
    assert len(set(numbers(Subset(whole, [1, 2, 3]), Subset(whole, [4, 5, 6]), Subset(whole, [1, 2, 3])))) == 2


def test_arrays_are_told_apart_by_identity_and_lists_by_their_ends() -> None:
    class Values:
        def __init__(self, *arrays: Any) -> None:
            self.arrays = arrays

    class Held:
        __array__ = None

    one, other = Held(), Held()
    first, again, third = numbers(Values(one), Values(one), Values(other))
    assert first == again != third
    assert len(set(numbers(["a"] * 3, ["a"] * 3, ["b"] * 3))) == 2


def test_what_cannot_be_read_has_no_number() -> None:
    class Closed:
        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            raise RuntimeError("closed")

    assert numbers(None, Closed()) == [None, None]
