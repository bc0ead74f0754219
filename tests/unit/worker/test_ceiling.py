"""The loader alone: what a drain tells of it, and from which batch on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def ceiling() -> Any:
    from _vtune_hooks import ceiling

    return ceiling


def test_the_stock_does_not_count_and_rounds_are_whole(ceiling: Any) -> None:
    # 2 workers × 2 lie ready at 0; each worker then takes 1 s, and both deliver at once.
    times = [0.0] * 4 + [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0]
    told = ceiling._measured(times, [4] * len(times), begun=0.0, stock=4, workers=2)
    assert told == {"batches_measured": 6, "samples": 24, "seconds": 3.0}


def test_without_workers_every_batch_counts(ceiling: Any) -> None:
    told = ceiling._measured([1.5, 2.0, 2.5], [4, 4, 2], begun=1.0, stock=0, workers=0)
    assert told == {"batches_measured": 3, "samples": 10, "seconds": 1.5}


def test_a_drain_of_the_stock_alone_tells_nothing(ceiling: Any) -> None:
    told = ceiling._measured([0.0, 0.0], [4, 4], begun=0.0, stock=4, workers=2)
    assert told == {"batches_measured": 0, "samples": 0, "seconds": 0.0}


def test_what_is_not_asked_for_costs_nothing(ceiling: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from _vtune_hooks import recorder

    def __next__(self: Any) -> Any: ...

    monkeypatch.setattr(recorder, "here", recorder.Process(str(tmp_path), silent=False))
    assert ceiling.fed(__next__) is __next__
    (tmp_path / "spec.json").write_text(json.dumps({"effects": [{"kind": "SetEnv", "name": "A", "value": "1"}]}))
    assert ceiling.fed(__next__) is __next__
