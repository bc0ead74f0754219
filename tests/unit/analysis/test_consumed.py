"""The effective batch: what the optimizer's steps used, whatever was asked for and whenever it was delivered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.studies import a_trial
from support.training_log import TrainingLog
from support.trial_writer import PID
from vtune.analysis.another_batch import batch_change, batch_ratio
from vtune.domain.consumed import NoBatch
from vtune.domain.record import Measurement
from vtune.journal.records import consumed_from_json, record_from_json, record_to_json

BUCKETS = [32, 24, 16, 48, 64, 24, 32, 16, 24, 48]


def plain(log: TrainingLog) -> None:
    log.epoch([16] * 40)


def remainder(log: TrainingLog) -> None:
    for _ in range(4):
        log.epoch([16] * 9 + [5])


def one_batch_and_its_rest(log: TrainingLog) -> None:
    for _ in range(6):
        log.epoch([16, 5])


def buckets(log: TrainingLog) -> None:
    log.epoch(BUCKETS * 5)


def accumulated(log: TrainingLog) -> None:
    for _ in range(4):
        log.epoch([4] * 10, accumulate=3)


def accumulated_across_epochs(log: TrainingLog) -> None:
    """What is left at the end of an epoch goes into the first step of the next."""
    for _ in range(4):
        log.epoch([4] * 9 + [2], accumulate=3, ends_with_step=False)


def read_ahead(log: TrainingLog) -> None:
    for _ in range(3):
        log.begin(10)
        sizes = [16] * 9 + [5]
        log.batch(sizes[0])
        for at in range(10):
            if at + 1 < 10:
                log.batch(sizes[at + 1])
            else:
                log.end()
            log.backward()
            log.step()


def read_by_a_thread(log: TrainingLog) -> None:
    """As many as its queue takes at first; later now two in a step, now none."""
    log.begin(60)
    for _ in range(5):
        log.batch(16, main_thread=False)
    for at in range(50):
        for _ in range((0, 2, 1, 0, 2)[at % 5]):
            log.batch(16, main_thread=False)
        log.backward()
        log.step()


def a_look_at_the_first_batch(log: TrainingLog) -> None:
    log.begin(10)
    log.batch(16)
    for _ in range(3):
        log.epoch([16] * 9 + [7])


def several_losses(log: TrainingLog) -> None:
    log.begin(30)
    for _ in range(30):
        log.batch(8)
        for _ in range(3):
            log.backward()
        log.step()


def two_batches_to_a_backward(log: TrainingLog) -> None:
    log.begin(60)
    for _ in range(30):
        log.batch(8)
        log.batch(8)
        log.backward()
        log.step()


def several_steps_of_a_batch(log: TrainingLog) -> None:
    log.begin(10)
    for _ in range(10):
        log.batch(64)
        for _ in range(4):
            log.backward()
            log.step()


def without_backwards(log: TrainingLog) -> None:
    log.begin(30)
    for _ in range(30):
        log.batch(8)
        log.step()


def skipped_batches(log: TrainingLog) -> None:
    log.begin(40)
    for at in range(40):
        log.batch(8)
        if at % 7 == 3:
            continue
        log.backward()
        log.step()


def broken_off_epochs(log: TrainingLog) -> None:
    """`if step >= limit: break` comes after the next batch."""
    for _ in range(4):
        log.begin(100)
        for _ in range(10):
            log.batch(12)
            log.backward()
            log.step()
        log.batch(12)


def whole_data_set(log: TrainingLog) -> None:
    for _ in range(8):
        log.epoch([150])


@pytest.mark.parametrize(
    ("script", "batch", "no_batch"),
    [
        (plain, 16, None),
        (remainder, 16, None),
        (one_batch_and_its_rest, 16, None),
        (buckets, None, NoBatch.VARIES),
        (accumulated, 12, None),
        (accumulated_across_epochs, 12, None),
        (read_ahead, 16, None),
        (read_by_a_thread, 16, None),
        (a_look_at_the_first_batch, 16, None),
        (several_losses, 8, None),
        (two_batches_to_a_backward, None, NoBatch.JOINED_OR_SKIPPED),
        (several_steps_of_a_batch, None, NoBatch.SEVERAL_STEPS),
        (without_backwards, 8, None),
        (skipped_batches, 8, None),
        (broken_off_epochs, 12, None),
        (whole_data_set, 150, None),
    ],
)
def test_the_effective_batch_is_exact_or_none_with_the_reason(
    tmp_path: Path, script: Callable[[TrainingLog], None], batch: int | None, no_batch: NoBatch | None
) -> None:
    log = TrainingLog(tmp_path)
    script(log)
    found = log.measured()
    assert found.effective_batch == batch
    assert found.consumed is not None and found.consumed.no_batch is no_batch
    assert ("effective_batch" in found.unknown) == (batch is None)


@pytest.mark.parametrize(("in_turns", "no_batch"), [(False, NoBatch.SEVERAL_LOADERS), (True, NoBatch.VARIES)])
def test_of_several_loaders_that_feed_the_steps_there_is_no_one_batch(
    tmp_path: Path, in_turns: bool, no_batch: NoBatch
) -> None:
    """A labelled batch of 8 and an unlabelled one of 24 in each step are no batch of 8; nor are tasks in turns."""
    log = TrainingLog(tmp_path)
    log.writer.loader(1, "train.py:9:Unlabelled#0 bbbb")
    log.begin(40)
    log.writer.begin_pass(number=1, loader=1, workers=0, batch=24)
    for at in range(40):
        if not (in_turns and at % 2):
            log.batch(8)
        if not in_turns or at % 2:
            log.writer.deliver(log.now, log.now + 0.004, at, loader=1, pass_number=1, samples=24)
        log.backward()
        log.step()
    found = log.measured()
    assert found.effective_batch is None
    assert found.consumed is not None and found.consumed.no_batch is no_batch
    assert batch_ratio(found, found) == (1.0 if in_turns else None)


@pytest.mark.parametrize("steps", [19, 20, 21, 33, 47])
def test_the_length_of_the_window_does_not_change_it(tmp_path: Path, steps: int) -> None:
    log = TrainingLog(tmp_path)
    for _ in range(steps // 4 + 1):
        log.epoch([4] * 10, accumulate=3)
    assert log.measured().effective_batch == 12


def test_what_was_read_ahead_is_used_one_step_later(tmp_path: Path) -> None:
    log = TrainingLog(tmp_path)
    read_ahead(log)
    consumed = log.measured().consumed
    assert consumed is not None and consumed.by_step == ((5.0, 3), (16.0, 27))


def test_steps_that_a_variable_training_used_are_kept_whole(tmp_path: Path) -> None:
    log = TrainingLog(tmp_path)
    buckets(log)
    consumed = log.measured().consumed
    assert consumed is not None and consumed.mean == sum(BUCKETS) / 10
    assert dict(consumed.by_step) == {16.0: 10, 24.0: 15, 32.0: 10, 48.0: 10, 64.0: 5}


def test_many_sizes_are_put_together_and_keep_their_number(tmp_path: Path) -> None:
    log = TrainingLog(tmp_path)
    log.epoch(list(range(1, 201)))
    consumed = log.measured().consumed
    assert consumed is not None and len(consumed.by_step) == 50 and sum(n for _, n in consumed.by_step) == 200


def test_a_batch_sampler_of_the_scripts_own_leaves_no_batch_size_of_torchs(tmp_path: Path) -> None:
    log = TrainingLog(tmp_path, asked={"batch_size": 1}, effective={"batch_size": None}, own_batch_sampler=True)
    plain(log)
    roles = log.observed().roles
    assert roles is not None and roles.train is not None and roles.train.asked_batch_size is None
    assert log.measured().effective_batch == 16


def test_ranks_that_step_together_add_up_what_each_of_them_used(tmp_path: Path) -> None:
    # 101 samples of two ranks: the second has the smaller rest.
    for pid, rest in ((PID, 6), (PID + 1, 5)):
        log = TrainingLog(tmp_path, pid=pid)
        for _ in range(3):
            log.epoch([9] * 5 + [rest])
    found = log.measured()
    assert found.effective_batch == 18
    assert found.consumed is not None and found.consumed.by_step == ((11.0, 3), (18.0, 15))


def test_ranks_with_different_batches_add_up_to_one(tmp_path: Path) -> None:
    for pid, batch in ((PID, 12), (PID + 1, 4)):
        log = TrainingLog(tmp_path, pid=pid)
        log.epoch([batch] * 30)
    assert log.measured().effective_batch == 16


def test_processes_that_do_not_step_together_have_no_effective_batch(tmp_path: Path) -> None:
    log = TrainingLog(tmp_path, pid=PID)
    log.epoch([8] * 60)
    slower = TrainingLog(tmp_path, pid=PID + 1)
    slower.begin(60)
    for _ in range(50):
        slower.batch(8)
        slower.now += 0.05
        slower.backward()
        slower.step()
    found = slower.measured()
    assert found.effective_batch is None
    assert found.consumed is not None and found.consumed.no_batch is NoBatch.RANKS_APART


def test_ranks_on_other_machines_are_missing(tmp_path: Path) -> None:
    log = TrainingLog(tmp_path)
    plain(log)
    log.writer.fact("hello", PID, argv=["train.py"], torch="2.13.0", rank=0, world_size=4)
    found = log.measured()
    assert found.effective_batch is None
    assert found.consumed is not None and found.consumed.no_batch is NoBatch.RANKS_UNSEEN


def capped(root: Path, batch: int, *, rest: int | None, heads: object, **sizes: object) -> TrainingLog:
    log = TrainingLog(root, batch=batch)
    rows = min(batch, 8)
    log.writer.fact("shape", PID, loader=0, shape=[rows, 3], heads=heads, lengths=[], **{"bytes": 96, **sizes})
    log.begin(30)
    for at in range(30):
        samples = rest if rest is not None and at == 29 else batch
        log.batch(samples, rows=min(samples, 8))
        log.backward()
        log.step()
    log.end()
    return log


def test_rows_that_a_collate_caps_are_counted_where_a_smaller_batch_shows_that_they_are_samples(tmp_path: Path) -> None:
    found = capped(tmp_path, 16, rest=5, heads=[[8, 3], [8]]).measured()
    assert found.effective_batch == 8
    assert found.consumed is not None and found.consumed.by_step == ((5.0, 1), (8.0, 29))


def test_rows_that_may_be_a_cap_or_a_packing_are_no_effective_batch(tmp_path: Path) -> None:
    found = capped(tmp_path, 16, rest=None, heads=[[8, 3], [8]]).measured()
    assert found.effective_batch is None
    assert found.consumed is not None and found.consumed.no_batch is NoBatch.ROWS_UNKNOWN


@pytest.mark.parametrize(
    ("heads", "lengths"), [([[8, 3], [16]], []), ([[8, 16], [9, 16]], []), ([[3, 224], [3, 200]], [16, 16])]
)
def test_labels_times_and_lists_show_as_many_samples_as_were_asked_for(
    tmp_path: Path, heads: object, lengths: object
) -> None:
    log = capped(tmp_path, 16, rest=None, heads=heads)
    # The same fact, as the hook tells it.
    path = tmp_path / f"steps-{PID}.jsonl"
    path.write_text(path.read_text().replace('"lengths": []', f'"lengths": {lengths}'))
    assert log.measured().effective_batch == 16


def test_a_larger_batch_that_a_collate_caps_is_no_other_training_that_anybody_knows(tmp_path: Path) -> None:
    own = capped(tmp_path / "own", 8, rest=None, heads=[[8, 3], [8]]).measured()
    now = capped(tmp_path / "now", 16, rest=None, heads=[[8, 3], [8]]).measured()
    assert own.effective_batch == 8 and batch_change(now, own) is None and batch_ratio(now, own) is None


def of(root: Path, script: Callable[[TrainingLog], None]) -> Measurement:
    log = TrainingLog(root)
    script(log)
    return log.measured()


def test_another_training_has_the_measured_ratio(tmp_path: Path) -> None:
    then, now = of(tmp_path / "a", accumulated), of(tmp_path / "b", remainder)
    change = batch_change(now, then)
    assert change is not None and change.exact and change.measured
    assert (change.now, change.then, change.ratio) == (16, 12, 16 / 12)


def test_a_training_that_keeps_its_batch_by_accumulation_stays_the_same(tmp_path: Path) -> None:
    then = of(tmp_path / "a", lambda log: log.epoch([16] * 60, accumulate=4))
    now = of(tmp_path / "b", lambda log: log.epoch([32] * 60, accumulate=2))
    assert (now.effective_batch, then.effective_batch) == (64, 64) and batch_change(now, then) is None


def test_windows_of_one_variable_training_are_the_same_and_of_twice_its_batch_another(tmp_path: Path) -> None:
    then = of(tmp_path / "a", buckets)
    again = of(tmp_path / "b", lambda log: log.epoch((BUCKETS * 4)[3:36]))
    twice = of(tmp_path / "c", lambda log: log.epoch([2 * size for size in BUCKETS] * 4))
    assert batch_change(again, then) is None and batch_ratio(again, then) == 1.0
    change = batch_change(twice, then)
    assert change is not None and not change.exact and change.ratio == pytest.approx(2.0)


def test_a_rounded_mean_of_an_older_journal_is_no_other_training(tmp_path: Path) -> None:
    now = of(tmp_path / "a", plain)
    assert batch_change(now, Measurement(effective_batch=15)) is None
    change = batch_change(now, Measurement(effective_batch=8))
    assert change is not None and change.ratio == 2.0


def test_a_reason_of_a_newer_version_is_no_effective_batch_all_the_same() -> None:
    told = consumed_from_json({"by_step": [[4.0, 3]], "mean": 4.0, "no_batch": "unheard_of", "newer": 1})
    assert told.no_batch is NoBatch.VARIES and told.by_step == ((4.0, 3),)


def test_a_record_keeps_its_steps_and_an_older_one_has_none(tmp_path: Path) -> None:
    told = json.loads(
        json.dumps(record_to_json(a_trial(1, 10.0, measured={"consumed": of(tmp_path, buckets).consumed})))
    )
    consumed = record_from_json(told).measurement.consumed
    assert consumed is not None and consumed.no_batch is NoBatch.VARIES and (32.0, 10) in consumed.by_step
    del told["consumed"]
    assert record_from_json(told).measurement.samples_per_step == 2
