from __future__ import annotations

from dataclasses import replace

from tests.support.records import a_record
from vtune.analysis.queues import needed_shm_bytes, shm_refusal
from vtune.domain.record import Measurement, TrialRecord
from vtune.domain.trial import TrialStatus

MIB = 2**20


def measured(batch_bytes: int | None = 10 * MIB, **settings: int) -> TrialRecord:
    record = a_record()
    effective = {"workers": 2, "prefetch_factor": 2, "batch_size": 2, **settings}
    measurement = replace(record.measurement, batch_bytes=batch_bytes, effective_settings=effective)
    return replace(record, measurement=measurement, asked={})


def test_full_queues_take_every_batch_on_its_way_and_one_at_each_end() -> None:
    assert needed_shm_bytes(100, workers=2, prefetch=2) == int(6 * 100 * 1.15)
    assert needed_shm_bytes(100, workers=0, prefetch=2) == 0


def test_workers_whose_batches_have_no_room_are_refused_with_what_would_fit() -> None:
    refusal = shm_refusal([measured()], {"workers": 8}, free_bytes=100 * MIB)
    assert refusal is not None and refusal.needed_bytes == needed_shm_bytes(10 * MIB, 8, 2)
    assert "100 MiB free" in refusal.detail and "8 workers" in refusal.detail
    assert refusal.next[0] == "--set workers=3 would fit" and "--shm-size=1g" in refusal.next[-1]
    assert shm_refusal([measured()], {"workers": 3}, free_bytes=100 * MIB) is None


def test_a_larger_batch_takes_more_in_proportion() -> None:
    assert shm_refusal([measured()], {"batch_size": 4}, free_bytes=100 * MIB) is not None
    assert shm_refusal([measured()], {"batch_size": 2}, free_bytes=100 * MIB) is None


def test_a_deeper_queue_is_refused_with_the_depth_that_fits() -> None:
    refusal = shm_refusal([measured()], {"prefetch_factor": 8}, free_bytes=100 * MIB)
    assert refusal is not None and refusal.next[0] == "--set prefetch_factor=3 would fit"


def test_what_an_earlier_trial_turned_is_not_taken_for_the_trainings_own() -> None:
    turned = replace(measured(workers=8), asked={"workers": 8})
    assert shm_refusal([measured(), turned], {}, free_bytes=100 * MIB) is None


def test_what_a_refused_trial_would_have_taken_is_no_measurement_for_the_next() -> None:
    larger = {"batch_size": 64}
    refusal = shm_refusal([measured()], larger, free_bytes=100 * MIB)
    assert refusal is not None
    only = Measurement(batch_bytes=refusal.batch_bytes, shm_needed_bytes=refusal.needed_bytes)
    refused = replace(a_record(), status=TrialStatus.REFUSED, measurement=only, asked={**larger})
    for size in (2, 4, 64):
        without = shm_refusal([measured()], {"batch_size": size}, free_bytes=100 * MIB)
        assert shm_refusal([measured(), refused], {"batch_size": size}, free_bytes=100 * MIB) == without
    assert shm_refusal([refused], {"workers": 2}, free_bytes=100 * MIB) is None


def test_nothing_is_refused_on_a_guess() -> None:
    assert shm_refusal([], {"workers": 64}, free_bytes=MIB) is None
    assert shm_refusal([measured(batch_bytes=None)], {"workers": 64}, free_bytes=MIB) is None
    assert shm_refusal([measured()], {"workers": 64}, free_bytes=None) is None
    assert shm_refusal([measured()], {"workers": 0}, free_bytes=MIB) is None
