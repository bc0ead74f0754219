from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vtune.analysis.cold_start import gained_s
from vtune.analysis.costs import Costs


def costs(workers: int = 4, prefetch: int = 2, load_s: float = 1.0, own_s: float = 0.1, **other: object) -> Costs:
    rows = 20
    fields = {
        "workers": workers,
        "delivering": other.get("workers", workers),
        "prefetch": prefetch,
        "samples_per_batch": 2.0,
        "load_s": np.full(rows, load_s),
        "cpu_s": np.full(rows, load_s),
        "dispatch_s": np.zeros(rows),
        "load_kind": np.zeros(rows, int),
        "load_pattern": np.zeros(1, int),
        "own_s": np.full(rows, own_s),
        "others_s": np.zeros(rows),
        "delivery_s": np.zeros(rows),
        "waited": np.ones(rows, bool),
        "kind": np.zeros(rows, int),
        "pattern": np.zeros(1, int),
    }
    return Costs(**{**fields, **other})  # type: ignore[arg-type]


@pytest.mark.parametrize(("batches", "last_round"), [(40, 4), (41, 1), (43, 3), (None, 4), (10_002, 2)])
def test_the_last_round_of_workers_that_are_waited_for_is_won(batches: int | None, last_round: int) -> None:
    # A batch each 0.25 s, of which the training needs 0.1 s itself.
    assert gained_s(costs(), batches) == pytest.approx(last_round * 0.15, abs=0.01)


def test_workers_that_keep_ahead_win_and_lose_nothing() -> None:
    assert gained_s(costs(own_s=0.5), 200) == pytest.approx(0.0, abs=1e-9)


def test_uneven_batches_are_waited_for_as_long_as_no_queue_bridges_them() -> None:
    uneven = replace(costs(prefetch=8, own_s=0.12), load_s=np.tile([0.2, 0.2, 0.2, 1.0], 5))
    even = replace(uneven, load_s=np.full(20, 0.4))
    gained = gained_s(uneven, 60), gained_s(even, 60)
    assert gained[0] is not None and gained[1] is not None and gained[0] < gained[1] - 0.1


@pytest.mark.parametrize("other", [costs(workers=0), costs(in_order=False)])
def test_other_schedules_are_not_replayed(other: Costs) -> None:
    assert gained_s(other, 100) is None
