"""Which code says that it shares out its samples between workers."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = SimpleNamespace(utils=SimpleNamespace(data=SimpleNamespace(get_worker_info=lambda: None)))


def helper() -> tuple[int, int]:
    info: Any = torch.utils.data.get_worker_info()
    return (info.id, info.num_workers) if info is not None else (0, 1)


class Asks:
    def __iter__(self) -> Iterator[int]:
        info: Any = torch.utils.data.get_worker_info()
        yield from range(info.id, 100, info.num_workers)


class AsksAHelper:
    def __iter__(self) -> Iterator[int]:
        first, step = helper()
        yield from range(first, 100, step)


class Unused:
    def __iter__(self) -> Iterator[int]:
        torch.utils.data.get_worker_info()
        yield from range(100)


class Whole:
    def __iter__(self) -> Iterator[int]:
        yield from range(100)


class Pipeline(Whole):
    """As WebDataset: its stages are in a list, and one of them shares out."""

    def __init__(self) -> None:
        self.pipeline = [print, functools.partial(shared_out, first=0)]


class Wraps(Whole):
    def __init__(self) -> None:
        self.inner = Asks()


def shared_out(source: Any, first: int) -> Any:
    return helper()


def seeds(worker: int) -> None:
    np.random.seed(worker)


def shares_out(worker: int) -> None:
    info: Any = torch.utils.data.get_worker_info()
    info.dataset.first = worker


@pytest.mark.parametrize(
    ("dataset", "prepared_by", "says"),
    [
        (Asks(), None, True),
        (AsksAHelper(), None, True),
        (Pipeline(), None, True),
        (Wraps(), None, True),
        (Unused(), None, False),
        (Whole(), None, False),
        (Whole(), seeds, False),
        (Whole(), shares_out, True),
        (Whole(), functools.partial(shares_out), True),
    ],
)
def test_code_says_it_shares_out_where_it_asks_for_the_worker_and_for_how_many(
    dataset: Any, prepared_by: Any, says: bool
) -> None:
    from _vtune_hooks.splitting import says_it_splits

    assert says_it_splits(dataset, prepared_by) is says
