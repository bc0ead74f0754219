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
