from __future__ import annotations

from dataclasses import replace

from support.choices import choose
from tests.support.records import a_record
from tests.support.studies import a_trial
from vtune.analysis.queues import batch_in_shm, needed_shm_bytes, shm_refusal, with_queues
from vtune.analysis.roles import Loader, Roles, TrainPass
from vtune.analysis.rungs import too_big_for
from vtune.domain.events import Fact
from vtune.domain.experiment import Limits
from vtune.domain.record import Measurement, TrialRecord
from vtune.domain.trial import TrialStatus

MIB = 2**20


def measured(batch_bytes: int | None = 10 * MIB, **settings: int) -> TrialRecord:
    record = a_record()
    effective = {"workers": 2, "prefetch_factor": 2, "batch_size": 2, **settings}
    measurement = replace(record.measurement, batch_bytes=batch_bytes, effective_settings=effective)
    return replace(record, measurement=measurement, asked={})


def test_full_queues_take_every_batch_on_its_way_and_one_at_each_end() -> None:
    assert needed_shm_bytes(100, workers=2, prefetch=2) == 600
    assert needed_shm_bytes(100, workers=0, prefetch=2) == 0


def test_workers_whose_batches_have_no_room_are_refused_with_what_would_fit() -> None:
    refusal = shm_refusal([measured()], {"workers": 8}, free_bytes=100 * MIB)
    assert refusal is not None and refusal.needed_bytes == needed_shm_bytes(int(10 * MIB * 1.15), 8, 2)
    assert "100 MiB free" in refusal.detail and "8 workers" in refusal.detail
    assert refusal.advice[0].text == "--set workers=3 would fit" and "--shm-size=1g" in refusal.advice[-1].text
    assert shm_refusal([measured()], {"workers": 3}, free_bytes=100 * MIB) is None


def test_a_larger_batch_takes_more_in_proportion() -> None:
    assert shm_refusal([measured()], {"batch_size": 4}, free_bytes=100 * MIB) is not None
    assert shm_refusal([measured()], {"batch_size": 2}, free_bytes=100 * MIB) is None


def test_a_deeper_queue_is_refused_with_the_depth_that_fits() -> None:
    refusal = shm_refusal([measured()], {"prefetch_factor": 8}, free_bytes=100 * MIB)
    assert refusal is not None and refusal.advice[0].text == "--set prefetch_factor=3 would fit"


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


def in_segments(batch_shm_bytes: int, **told: int | None) -> TrialRecord:
    record = measured()
    return replace(record, measurement=replace(record.measurement, batch_shm_bytes=batch_shm_bytes, **told))


def test_segments_that_were_counted_need_no_share_on_top() -> None:
    # Eight batches in the queues and two beyond them.
    assert shm_refusal([in_segments(10 * MIB)], {"workers": 4}, free_bytes=100 * MIB) is None
    refusal = shm_refusal([in_segments(10 * MIB)], {"workers": 4}, free_bytes=100 * MIB - 1)
    assert refusal is not None and refusal.needed_bytes == 100 * MIB


def test_what_a_trial_held_beside_its_full_queues_is_held_by_the_next_as_well() -> None:
    beside = in_segments(10 * MIB, shm_peak_bytes=80 * MIB)
    assert shm_refusal([beside], {"workers": 4}, free_bytes=120 * MIB) is None
    assert shm_refusal([beside, in_segments(10 * MIB)], {"workers": 4}, free_bytes=119 * MIB) is not None


def test_pages_that_segments_fill_in_part_do_not_get_fewer_with_the_samples() -> None:
    told = Measurement(batch_bytes=1000, batch_shm_bytes=8192)
    assert batch_in_shm(told, 0.5) == 500 + 7192
    assert batch_in_shm(told, 2.0) == 2 * 8192
    assert batch_in_shm(Measurement(batch_bytes=1000)) == 1150
    assert batch_in_shm(Measurement()) is None


def a_training() -> Roles:
    settings = {"workers": 2, "prefetch_factor": 2, "batch_size": 8}
    one = TrainPass(number=0, begun_s=0.0, length=None, worker_pids=(), resume=0, settings=settings)
    loader = Loader(key="x", numbers=frozenset({0}), where="train.py:1", dataset="D", share=1.0)
    return Roles(
        pid=1, steps=(), optimizer=0, train=loader, passes=(one,), batches=(), others=(), other_batches=(),
        peers_worker_pids=(), ranks=(1,),
    )  # fmt: skip


def test_batches_of_one_shape_are_counted_as_they_are_and_others_may_be_larger_still() -> None:
    def found(*told: dict[str, object]) -> Measurement:
        facts = [Fact(pid=1, t_s=0.0, name="shape", data={"loader": 0, **one}) for one in told]
        return with_queues(Measurement(), a_training(), facts)

    usual = {"shape": [8, 3], "bytes": 96, "segment_bytes": 4096}
    last = {"shape": [5, 3], "bytes": 60, "segment_bytes": 4096}
    wider = {"shape": [8, 9], "bytes": 288, "segment_bytes": 4096}
    assert found(usual).batch_shm_bytes == found(usual, last).batch_shm_bytes == 4096
    assert found(usual, wider).batch_shm_bytes == int(4096 * 1.15)
    assert found({"shape": [8, 3], "bytes": 96}).batch_shm_bytes is None
    assert found(usual).shm_needed_bytes == 6 * 4096


def test_a_trial_that_ran_is_not_chosen_where_its_full_queues_would_run_out_of_room() -> None:
    own = a_trial(1, 10.0, asked={})
    room = {"shm_needed_bytes": 40 * MIB, "shm_room_bytes": 44 * MIB}
    assert choose([own, a_trial(2, 20.0, asked={"workers": 4}, measured=room)]).best == a_trial(
        2, 20.0, asked={"workers": 4}, measured=room
    )
    less = {**room, "shm_room_bytes": 39 * MIB}
    cramped = a_trial(2, 20.0, asked={"workers": 4}, measured=less)
    found = choose([own, cramped])
    assert found.best == own and found.lost[0].reason == "out_of_room"
    assert "40 MiB of /dev/shm, which had 39 MiB free" in found.lost[0].why
    assert too_big_for(cramped, Limits(), None) == ("shm", found.lost[0].why)
    # The user's own may fill up: that is theirs to know, and no reason to take it away.
    assert choose([a_trial(1, 10.0, asked={}, measured=less)]).best is not None
