import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.trial_writer import TrialWriter, replay_loader
from vtune.analysis.costs import Costs, costs_of
from vtune.analysis.roles import find_roles
from vtune.analysis.twin import replay
from vtune.analysis.window import step_windows
from vtune.journal.step_log import StepLog


def costs(writer: TrialWriter, first: int = 1, device_s: dict[int, float] | None = None) -> Costs | None:
    log = StepLog(writer.paths)
    log.refresh()
    roles = find_roles(log.steps, log.delivered, log.facts)
    assert roles is not None
    regular = [window for window in step_windows(roles)[first:] if not window.boundary]
    return costs_of(roles, log.loaded, regular, device_s=device_s)


def test_each_side_of_the_loader_is_told_apart(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    replay_loader(writer, steps=60, workers=2, prefetch=2, load_s=1.0, compute_s=0.1, first_step_s=20.0)
    found = costs(writer)
    assert found is not None and (found.workers, found.prefetch, found.samples_per_batch) == (2, 2, 2.0)
    assert found.load_s == pytest.approx(1.0) and found.cpu_s == pytest.approx(0.5)
    assert found.own_s == pytest.approx(0.1)
    assert found.dispatch_s == pytest.approx(0.0) and found.delivery_s == pytest.approx(0.0)


def test_a_workers_first_batch_and_undelivered_ones_are_left_out(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    [pid] = writer.begin_pass(workers=1, prefetch=4)
    for j in range(40):
        load = 9.0 if j == 0 else 5.0 if j >= 30 else 1.0
        writer.load(pid, 0, j, 10.0 * j, 10.0 * j + load)
        if j < 30:
            writer.deliver(10.0 * j + 1, 10.0 * j + 9.5, j)
            writer.step(10.0 * j + 9.8)
    found = costs(writer)
    assert found is not None and found.load_s == pytest.approx(1.0)


def test_what_passes_between_the_finished_batch_and_its_being_there_is_delivery(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    pids = writer.begin_pass(workers=2, prefetch=1)
    for j in range(40):
        # Finished at j; the training asked long before it, or came late.
        asked = j - 0.5 if j % 2 else j + 0.25
        writer.load(pids[j % 2], j % 2, j, j - 0.75, float(j))
        writer.deliver(asked, j + 0.3, j)
        writer.step(j + 0.4)
    found = costs(writer)
    assert found is not None
    assert sorted({round(float(one), 6) for one in found.delivery_s}) == [0.05, 0.3]
    # The worker was free at j - 2 and had its next order at j - 1.7.
    assert found.dispatch_s == pytest.approx(2 - 0.75 - 0.3)


def test_a_device_that_is_behind_its_host_sets_the_time_of_a_step(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    replay_loader(writer, steps=30, workers=1, prefetch=2, load_s=0.05, compute_s=0.1)
    plain, behind, ahead = (costs(writer, device_s=dict.fromkeys(range(30), took)) for took in (0.1, 0.3, 0.02))
    assert plain is not None and behind is not None and ahead is not None
    assert behind.own_s == pytest.approx(0.3)
    assert ahead.own_s == pytest.approx(0.1) and plain.own_s == pytest.approx(0.1)
    assert behind.launch_s == pytest.approx(0.1) and ahead.launch_s is None


def test_a_host_that_waits_for_its_device_now_and_then_does_not_pay_for_each_step_twice(tmp_path: Path) -> None:
    # The device takes 8 ms a step; the host launches it in 0.5 ms, and waits for all of them at every 20th.
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    writer.begin_pass(workers=0, length=400)
    now = 0.0
    for step in range(61):
        writer.deliver(now, now + 0.0001, step)
        now += 0.0006
        writer.step(now)
        now += 20 * 0.008 - 20 * 0.0006 if step % 20 == 19 else 0.0
    found = costs(writer, device_s=dict.fromkeys(range(61), 0.008))
    assert found is not None and found.mean_own_s == pytest.approx(0.008, rel=0.05)


def test_batches_of_an_accumulated_step_keep_their_places(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    writer.begin_pass(workers=0, length=400)
    for step in range(30):
        for micro in range(2):
            writer.deliver(2.0 * step + micro * 0.7, 2.0 * step + micro * 0.7 + 0.1, step * 2 + micro)
        writer.step(2.0 * step + 1.9)
    found = costs(writer)
    assert found is not None and list(found.pattern) == [0, 1]
    assert found.own_s[found.kind == 0] == pytest.approx(0.6)
    assert found.own_s[found.kind == 1] == pytest.approx(1.2)
    assert found.load_s == pytest.approx(0.1)


def test_a_step_for_which_the_training_stood_still_is_told_by_its_number(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    writer.begin_pass(workers=0, length=400)
    now = 0.0
    for step in range(58):
        writer.deliver(now, now + 0.1, step)
        now += 0.2 + (30.0 if step == 40 else 2.0 if step == 20 else 0.0)
        writer.step(now)
    found = costs(writer)
    assert found is not None and found.long_steps == (40,)


def test_the_cost_of_every_nth_step_counts_over_whole_periods(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    writer.begin_pass(workers=0, length=400)
    now = 0.0
    for step in range(58):
        writer.deliver(now, now + 0.1, step)
        now += 0.1 + (3.0 if step % 16 == 8 else 1.0) + 0.001 * (step % 3)
        writer.step(now)
    found = costs(writer)
    assert found is not None and found.period_steps == 16
    assert found.period_extra_s == pytest.approx(2.0, abs=0.01)
    assert found.mean_own_s == pytest.approx((15 * 1 + 3) / 16, abs=0.005)


def test_persistent_workers_of_several_passes_are_joined_with_their_batches(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    now = 0.0
    for number in range(3):
        writer.fact(
            "pass", **{"pass": number}, loader=0, begun=now, ready=now, length=30, worker_pids=[5000], resume=number,
            effective={"num_workers": 1, "prefetch_factor": 2, "persistent_workers": True, "batch_size": 2},
        )  # fmt: skip
        for j in range(30):
            writer.record(1, 5000, 0, 0, number, j, now, now + 1.0 + number, 0.5, n1=2)
            writer.deliver(now, now + 1.1 + number, j, pass_number=number)
            now += 1.2 + number
            writer.step(now)
    found = costs(writer)
    assert found is not None and found.delivery_s == pytest.approx(0.1)
    assert set(np.round(found.load_s, 6)) == {1.0, 2.0, 3.0}


def test_workers_that_were_not_seen_leave_nothing_to_replay(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    writer.begin_pass(workers=2)
    for j in range(40):
        writer.deliver(j, j + 0.5, j)
        writer.step(j + 0.9)
    assert costs(writer) is None


def uneven(writer: TrialWriter, loads: list[float], steps: int = 80, idle: int = 0) -> float:
    """Each worker has its own cost; the last `idle` of them end after their first batch. The true rate by batches."""
    workers, dice = len(loads), random.Random(0)
    writer.hello()
    writer.loader()
    pids = writer.begin_pass(workers=workers, prefetch=2, length=None)
    finished, delivered, ends, now = [0.0] * workers, [], [], 0.0
    turns = [*range(workers), *(w for _ in range(steps) for w in range(workers - idle))][:steps]
    for j, w in enumerate(turns):
        ordered = delivered[j - 2 * workers] if j >= 2 * workers else 0.0
        start = max(finished[w], ordered)
        finished[w] = start + loads[w] * dice.uniform(0.95, 1.05)
        returned = max(finished[w], now)
        writer.load(pids[w], w, j, start, finished[w])
        writer.deliver(now, returned, j)
        delivered.append(returned)
        now = returned + 0.01
        writer.step(now)
        ends.append(now)
    return (steps // 2) / (ends[-1] - ends[-1 - steps // 2])


def test_a_slow_worker_holds_up_all_others_turn_by_turn(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    truth = uneven(writer, [2.0, 1.0, 1.0, 1.0])
    found = costs(writer)
    assert found is not None and list(found.load_pattern) == [0, 1, 2, 3]
    assert truth == pytest.approx(2.0, rel=0.05)
    assert replay(found).rate == pytest.approx(truth, rel=0.03)
    # Drawn alike, they would be taken for four workers of a middling cost.
    alike = replace(found, load_kind=np.zeros(len(found.load_s), int), load_pattern=np.zeros(1, int))
    assert replay(alike).rate > 1.2 * truth


def test_workers_at_the_end_of_their_data_are_not_counted(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    truth = uneven(writer, [1.0, 1.0, 1.0, 1.0], idle=3)
    found = costs(writer)
    assert found is not None and (found.workers, found.delivering) == (4, 1)
    assert replay(found).rate == pytest.approx(truth, rel=0.03) == pytest.approx(1.0, rel=0.05)


def test_a_dear_batch_in_every_so_many_is_drawn_in_its_place(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    pids = writer.begin_pass(workers=2, prefetch=2, length=None)
    finished, now, dice = [0.0, 0.0], 0.0, random.Random(0)
    for j in range(80):
        start = max(finished[j % 2], now if j >= 4 else 0.0)
        finished[j % 2] = start + (5.0 if j % 5 == 1 else 1.0) * dice.uniform(0.98, 1.02)
        writer.load(pids[j % 2], j % 2, j, start, finished[j % 2])
        returned = max(finished[j % 2], now)
        writer.deliver(now, returned, j)
        now = returned + 0.1
        writer.step(now)
    found = costs(writer)
    assert found is not None and len(found.load_pattern) == 5
    dear = found.load_kind[np.argmax(found.load_s)]
    assert found.load_s[found.load_kind == dear].min() > 4.9
    assert found.load_s[found.load_kind != dear].max() < 1.1
