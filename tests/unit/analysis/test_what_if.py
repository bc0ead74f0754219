from dataclasses import replace

import numpy as np
import pytest

from vtune.analysis.costs import Costs
from vtune.analysis.draws import SlowShare
from vtune.analysis.what_if import with_what_if
from vtune.domain.machine_use import ProcessUse
from vtune.domain.record import Measurement


def costs(load: float, own: float, workers: int = 2) -> Costs:
    def rows(value: float) -> np.ndarray:
        return np.full(60, value)

    return Costs(
        workers=workers, delivering=workers, prefetch=2, samples_per_batch=1.0, load_s=rows(load), cpu_s=rows(load / 4),
        dispatch_s=rows(0.0), own_s=rows(own), others_s=rows(0.0), delivery_s=rows(0.0),
        waited=np.ones(60, bool), kind=np.zeros(60, int),
        load_kind=np.zeros(60, int),
        load_pattern=np.zeros(1, int),
        pattern=np.zeros(1, int),
    )  # fmt: skip


def rates(
    measured: Measurement, seen: Costs, cores: float | None = None, slow: SlowShare | None = None
) -> dict[str, float]:
    return {one.change: one.samples_per_s for one in with_what_if(measured, seen, slow, cores).what_if}


DATA_BOUND = Measurement(samples_per_s=2.0, compute_samples_per_s=10.0, loader_samples_per_s=2.0)


def test_a_loader_that_is_too_slow_gains_from_workers_and_not_from_its_queue() -> None:
    found = rates(DATA_BOUND, costs(load=1.0, own=0.1))
    assert found["twice_the_workers"] == pytest.approx(4.0, rel=0.01)
    assert found["twice_the_prefetch"] == pytest.approx(2.0, rel=0.01)
    assert (found["data_free"], found["compute_free"]) == (10.0, 2.0)
    assert "storage_free" not in found


def test_a_training_that_is_too_slow_gains_from_neither() -> None:
    found = rates(Measurement(samples_per_s=2.0), costs(load=0.1, own=0.5))
    assert found["twice_the_workers"] == pytest.approx(2.0, rel=0.01)
    assert "compute_free" not in found  # nobody knows the loader's capacity


def test_more_workers_get_no_more_cores_than_there_are() -> None:
    busy = replace(DATA_BOUND, tree_cores=1.6)
    assert rates(busy, costs(load=1.0, own=0.1), cores=2.0)["twice_the_workers"] == pytest.approx(2.5, rel=0.01)
    crowded = replace(busy, others_cores=0.3)
    assert rates(crowded, costs(load=1.0, own=0.1), cores=2.0)["twice_the_workers"] == pytest.approx(2.125, rel=0.01)


def test_without_storage_the_workers_keep_their_computing_and_their_queueing_for_a_core() -> None:
    cold = replace(
        DATA_BOUND,
        cold_fraction=1.0,
        processes=(ProcessUse(role="main"), ProcessUse(role="worker 0", queued_fraction=0.25)),
    )
    # Of a second, a quarter computes and a quarter waits for a core.
    assert rates(cold, costs(load=1.0, own=0.01))["storage_free"] == pytest.approx(4.0, rel=0.01)
    assert "storage_free" not in rates(replace(cold, cold_fraction=0.0), costs(load=1.0, own=0.01))


def test_what_was_changed_is_named_as_a_setting() -> None:
    found = {one.change: one.setting for one in with_what_if(DATA_BOUND, costs(1.0, 0.1), None, None).what_if}
    assert found["twice_the_workers"] == ("workers", 4)
    assert found["twice_the_prefetch"] == ("prefetch_factor", 4)
    assert found["order_not_kept"] == ("in_order", False)
    assert found["data_free"] is None


def test_a_loader_without_workers_is_asked_what_one_would_bring() -> None:
    found = with_what_if(Measurement(samples_per_s=1 / 0.7), costs(load=0.5, own=0.2, workers=0), None, None).what_if
    assert [one.samples_per_s for one in found if one.change == "twice_the_workers"] == pytest.approx([2.0], rel=0.01)
    assert not any(one.change in ("twice_the_prefetch", "order_not_kept") for one in found)


def test_where_workers_have_come_to_their_end_nothing_is_foretold_of_more_or_of_longer_queues() -> None:
    found = rates(DATA_BOUND, replace(costs(load=1.0, own=0.1, workers=4), delivering=1))
    assert not {"twice_the_workers", "twice_the_prefetch", "order_not_kept"} & set(found)


def test_slow_batches_of_other_trials_count_for_what_order_costs() -> None:
    seen = costs(load=1.0, own=0.01, workers=8)
    eight = replace(DATA_BOUND, samples_per_s=8.0)
    assert rates(eight, seen)["order_not_kept"] == pytest.approx(8.0, rel=0.02)
    known = SlowShare(batches=1000, ratios=(10.0,) * 20)
    assert rates(eight, seen, slow=known)["order_not_kept"] > 1.2 * 8.0
