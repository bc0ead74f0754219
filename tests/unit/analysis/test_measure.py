from dataclasses import replace
from pathlib import Path

import pytest

from support.trial_writer import PID, TrialWriter, observed, replay_loader
from vtune.analysis.doubts import is_calm
from vtune.analysis.measure import measure, steps_measured
from vtune.domain.consumed import NoBatch
from vtune.domain.events import ProcessSample, TelemetrySample
from vtune.domain.experiment import PlannedRun, Price
from vtune.domain.steady import Drained


def test_a_loader_bound_training_is_measured_at_its_loaders_rate(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    replay_loader(writer, steps=80, workers=2, prefetch=2, load_s=1.0, compute_s=0.1, batch=4)
    found = measure(observed(writer), PlannedRun(), None)
    assert found.samples_per_s == pytest.approx(2 * 4 / 1.0, rel=0.02)
    assert found.data_wait_fraction == pytest.approx(0.8, abs=0.02)
    assert found.loader_samples_per_s == pytest.approx(8.0, rel=1e-6)
    assert found.compute_samples_per_s == pytest.approx(4 / 0.1, rel=0.02)
    assert is_calm(found)


def test_a_compute_bound_training_hardly_waits(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    replay_loader(writer, steps=80, workers=2, prefetch=2, load_s=0.1, compute_s=0.5)
    found = measure(observed(writer), PlannedRun(), None)
    assert found.samples_per_s == pytest.approx(4.0, rel=0.01)
    assert found.data_wait_fraction == pytest.approx(0.0, abs=0.01)
    assert is_calm(found)


def test_a_window_that_lives_on_the_stock_of_a_slow_first_step_tells_the_loaders_pace(tmp_path: Path) -> None:
    # 6 workers × 8 in advance: 48 batches lie ready after the first step, and the loader makes 6.7 a second of the 10
    # that the training takes; the stock lasts for 144 steps.
    writer = TrialWriter(tmp_path)
    replay_loader(writer, steps=110, workers=6, prefetch=8, load_s=0.9, compute_s=0.1, first_step_s=30.0)
    found = measure(observed(writer), PlannedRun(), None)
    assert found.step_time_s is not None and found.step_time_s.mean == pytest.approx(0.1)
    assert found.samples_per_s == pytest.approx(2 * 6 / 0.9, rel=0.01)
    assert found.rate_from == "twin" and is_calm(found) and not found.fed_from_stock
    assert found.loader_samples_per_s == pytest.approx(13.3, rel=0.01)


def test_a_thread_between_loader_and_training_leaves_only_the_window_itself(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    replay_loader(writer, steps=110, workers=6, prefetch=8, load_s=0.9, compute_s=0.1, first_step_s=30.0, flags=4)
    found = measure(observed(writer), PlannedRun(), None)
    assert found.rate_from == "batch_means"
    assert not found.steady and found.fed_from_stock
    assert isinstance(found.doubts[0], Drained)


def test_a_validation_loaders_workers_are_not_the_trainings(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    replay_loader(writer, steps=80, workers=2, prefetch=2, load_s=1.0, compute_s=0.1)
    writer.loader(1, "train.py:9:Patches#0 bbbb")
    [pid] = writer.begin_pass(number=1, loader=1, workers=1)
    for j in range(40):
        writer.load(pid, 0, j, 10 + j * 0.01, 10 + j * 0.01 + 0.001)
    assert measure(observed(writer), PlannedRun(), None).loader_samples_per_s == pytest.approx(4.0)


def test_a_fresh_iterator_for_every_batch_is_no_epoch_boundary(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    for j in range(40):
        writer.begin_pass(number=j, workers=0)
        writer.deliver(j, j + 0.5, 0, pass_number=j)
        writer.step(j + 1.0)
    found = measure(observed(writer), PlannedRun(), None)
    assert found.steps_measured > 30 and found.samples_per_s == pytest.approx(2.0)


def test_iterators_of_one_place_that_are_read_in_turns_are_no_epoch_boundaries(tmp_path: Path) -> None:
    """`[iter(DataLoader(task)) for task in tasks]`: each is iterated before the next is made."""
    writer = TrialWriter(tmp_path)
    writer.hello()
    for number in range(2):
        writer.loader(number, "train.py:8:Task#0 aaaa")
        writer.begin_pass(number=number, loader=number, workers=0)
    for j in range(60):
        writer.deliver(j, j + 0.5, j // 2, loader=j % 2, pass_number=j % 2)
        writer.step(j + 1.0)
    seen = observed(writer)
    assert seen.roles is not None and seen.roles.reads_in_turns
    found = measure(seen, PlannedRun(), None)
    assert found.steps_measured > 50 and found.samples_per_s == pytest.approx(2.0)


def test_the_stock_is_not_measured_where_the_workers_are_not_seen(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    replay_loader(writer, steps=60, workers=4, prefetch=2, load_s=1.0, compute_s=0.1, first_step_s=10.0)
    seen = observed(writer)
    # 59 windows between 60 steps; the first still warms up, or 8 batches of stock are dropped.
    assert steps_measured(seen.roles, seen.loaded, seen.facts) == 59 - 1
    assert steps_measured(seen.roles, (), seen.facts) == 59 - 8


def test_epochs_shorter_than_the_stock_are_measured_whole(tmp_path: Path) -> None:
    # 3 steps an epoch: workers start (0.5 s), then all three batches lie ready and are used up in no time.
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    now = 0.0
    for epoch in range(40):
        pids = writer.begin_pass(number=epoch, workers=2, prefetch=2, length=3)
        for j in range(3):
            arrives = now + 0.5 if j == 0 else now
            writer.load(pids[j % 2], j % 2, j, now, arrives)
            writer.deliver(now, arrives, j, pass_number=epoch)
            now = arrives + 0.01
            writer.step(now)
    found = measure(observed(writer), PlannedRun(epochs=40), None)
    assert found.restarts_in_rate
    assert found.samples_per_s == pytest.approx(6 / 0.53, rel=0.05)
    assert found.projected.epoch_s == pytest.approx(0.53, rel=0.05)


def test_waiting_for_another_loader_in_the_step_is_waiting_for_data(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader(0, "train.py:1:Labelled#0")
    writer.loader(1, "train.py:2:Bank#0")
    writer.begin_pass(0, loader=0, workers=0)
    writer.begin_pass(1, loader=1, workers=0)
    for j in range(60):
        writer.deliver(j, j + 0.01, j, loader=0)
        # Without gradients: a teacher's batch, which feeds no step.
        writer.deliver(j + 0.01, j + 0.9, j, loader=1, pass_number=1, flags=1)
        writer.step(j + 1.0)
    found = measure(observed(writer), PlannedRun(), None)
    assert found.data_wait_fraction == pytest.approx(0.9, abs=0.01)
    assert found.other_loaders_wait_fraction == pytest.approx(0.89, abs=0.01)
    assert found.loader_samples_per_s == pytest.approx(200.0, rel=0.01)


def test_a_partial_last_batch_is_counted_as_it_came(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    now = 0.0
    for epoch in range(3):
        writer.begin_pass(number=epoch, workers=0, batch=16, length=30)
        for j in range(30):
            writer.deliver(now, now + 0.5, j, pass_number=epoch, samples=16 if j < 29 else 1)
            now += 1.0
            writer.step(now)
        writer.fact("pass_end", **{"pass": epoch}, batches=30)
    assert measure(observed(writer), PlannedRun(), None).samples_per_epoch == 29 * 16 + 1


def test_an_iterable_data_sets_batches_count_by_batch_size_not_by_their_leading_dimension(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    writer.begin_pass(workers=0, batch=4, length=None)
    for j in range(60):
        writer.record(2, flags=5, index=j, a=j, b=j + 0.5, n1=50, n2=0)
        writer.step(j + 1.0)
    assert measure(observed(writer), PlannedRun(), None).samples_per_s == pytest.approx(4.0)


def test_short_batches_of_an_iterable_data_set_count_as_they_are(tmp_path: Path) -> None:
    # Ten samples a walk, by eight: batches of 8 and 2.
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    for number in range(30):
        writer.begin_pass(number, workers=0, batch=8, length=None, begun=2.0 * number)
        for j, size in enumerate((8, 2)):
            at = 2.0 * number + j
            writer.record(2, flags=5, group=number, index=j, a=at, b=at + 0.5, n1=size, n2=0)
            writer.step(at + 1.0)
    assert measure(observed(writer), PlannedRun(), None).samples_per_s == pytest.approx(5.0, rel=0.02)


def test_shared_memory_that_a_neighbour_took_is_not_the_trials(tmp_path: Path) -> None:
    def look(t: float, used: int, alive: bool) -> TelemetrySample:
        process = ProcessSample(pid=PID, ppid=1, name="python", rss_bytes=2**20, cpu_s=t)
        return TelemetrySample(
            t_s=t, processes=(process,) if alive else (), ram_bytes=None, shm_used_bytes=used, others_cores=None,
            ram_available_bytes=None,
        )  # fmt: skip

    writer = TrialWriter(tmp_path)
    replay_loader(writer, steps=40, workers=2, prefetch=2, load_s=0.1, compute_s=0.5)
    own = [look(0, 10, True), look(1, 10 + 2**24, True), look(2, 10, False)]
    assert measure(replace(observed(writer), telemetry=own), PlannedRun(), None).shm_peak_bytes == 2**24
    others = [look(0, 10, True), look(1, 3 * 2**26, True), look(2, 3 * 2**26, False)]
    assert measure(replace(observed(writer), telemetry=others), PlannedRun(), None).shm_peak_bytes is None


def test_unknown_stays_none(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    found = measure(observed(writer), PlannedRun(epochs=3), None)
    assert found.samples_per_s is None and found.projected.run_s is None and found.steps_measured == 0


def test_before_the_first_step_the_settings_are_those_that_all_loaders_have(tmp_path: Path) -> None:
    """It ran out of memory while its workers filled their queues."""
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader(0, "train.py:5:Val#0")
    writer.begin_pass(0, loader=0, workers=8, batch=1)
    writer.loader(1, "train.py:4:Train#0")
    writer.begin_pass(1, loader=1, workers=8, batch=4)
    settings = measure(observed(writer), PlannedRun(), None).effective_settings
    assert settings["workers"] == 8 and settings["prefetch_factor"] == 2 and "batch_size" not in settings


def test_an_epoch_boundary_is_measured_apart_from_the_steps(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    now = 0.0
    for number in range(3):
        writer.begin_pass(number=number, workers=0, length=30)
        for j in range(30):
            restart = 5.0 if number and j == 0 else 0.0
            writer.deliver(now + restart / 2, now + restart + 0.05, j, pass_number=number)
            now += restart + 0.1
            writer.step(now)
    found = measure(observed(writer), PlannedRun(epochs=10), None)
    assert found.samples_per_s == pytest.approx(20.0, rel=0.01)
    assert found.epoch_restart_s == pytest.approx(5.0, rel=0.01)
    assert found.samples_per_epoch == 60
    assert found.projected.epoch_s == pytest.approx(3.0 + 5.0, rel=0.01)


def test_iterations_bound_the_epoch_when_the_config_says_so(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    replay_loader(writer, steps=80, workers=2, prefetch=2, load_s=0.1, compute_s=0.5, batch=2)
    planned = PlannedRun(epochs=32, iterations_per_epoch=4000)
    found = measure(observed(writer), planned, Price(per_hour=3.6))
    assert (found.samples_per_epoch, found.epoch_bound_by) == (8000, "iterations")
    assert found.projected.epoch_s == pytest.approx(2000, rel=0.01)
    assert found.projected.run_s == pytest.approx(64000, rel=0.01)
    assert found.projected.cost == pytest.approx(64.0, rel=0.01)


def test_a_larger_batch_is_projected_for_the_planned_samples_not_for_more(tmp_path: Path) -> None:
    # The plan: 90 iterations of 2 samples, 3 epochs. The trial: 8 samples a step, as fast by sample.
    writer = TrialWriter(tmp_path)
    replay_loader(writer, steps=80, workers=2, prefetch=2, load_s=0.1, compute_s=2.0, batch=8)
    planned = PlannedRun(epochs=3, iterations_per_epoch=90)
    found = measure(observed(writer), planned, None, batch_factor=4.0)
    assert found.samples_per_epoch == 720
    assert found.projected.epoch_s == pytest.approx(180.0, rel=0.01)
    assert found.projected.run_s == pytest.approx(3 * 180 / 4.0, rel=0.03)


def test_accumulation_counts_all_micro_batches_of_a_step(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    writer.begin_pass(workers=0, length=400)
    for step in range(40):
        for micro in range(4):
            writer.deliver(step + micro * 0.2, step + micro * 0.2 + 0.1, step * 4 + micro)
        writer.step(step + 1.0)
    found = measure(observed(writer), PlannedRun(), None)
    assert found.effective_batch == 8
    assert found.samples_per_s == pytest.approx(8.0)


def test_a_loader_iterated_in_a_thread_has_no_visible_wait(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    writer.begin_pass(workers=0)
    for j in range(60):
        writer.deliver(j, j + 0.9, j, flags=4)
        writer.step(j + 1.0)
    found = measure(observed(writer), PlannedRun(), None)
    assert found.samples_per_s == pytest.approx(2.0)
    assert found.data_wait_fraction is None and found.compute_samples_per_s is None
    assert not found.steady


def test_the_ranks_of_a_distributed_run_add_up(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    for pid in (PID, PID + 1):
        writer.hello(pid)
        writer.loader(pid=pid)
        writer.begin_pass(workers=0, pid=pid)
        for j in range(60):
            writer.deliver(j, j + 0.5, j, pid=pid)
            writer.step(j + 1.0, pid=pid)
    found = measure(observed(writer), PlannedRun(), None)
    assert found.samples_per_s == pytest.approx(4.0)
    assert found.effective_batch == 4
    # Each rank walks over its own 100 batches: an epoch lasts as long as one rank's walk.
    assert found.projected.epoch_s == pytest.approx(100.0, rel=0.02)


def ranks(tmp_path: Path, *paces: tuple[float, int]) -> TrialWriter:
    """Processes that step by themselves: seconds of a step, and how many there were."""
    writer = TrialWriter(tmp_path)
    for number, (step_s, steps) in enumerate(paces):
        pid = PID + number
        writer.hello(pid)
        writer.loader(pid=pid)
        writer.begin_pass(workers=0, pid=pid)
        for j in range(steps):
            writer.deliver(j * step_s, (j + 0.5) * step_s, j, pid=pid)
            writer.step((j + 1) * step_s, pid=pid)
    return writer


@pytest.mark.parametrize("paces", [((0.0116, 80), (0.01, 93)), ((0.01, 93), (0.0116, 80))])
def test_processes_that_do_not_wait_for_each_other_add_up_at_their_own_paces(
    tmp_path: Path, paces: tuple[tuple[float, int], ...]
) -> None:
    found = measure(observed(ranks(tmp_path, *paces)), PlannedRun(), None)
    assert found.samples_per_s == pytest.approx(2 / 0.0116 + 2 / 0.01, rel=0.005)
    assert found.effective_batch is None and found.consumed is not None
    assert found.consumed.no_batch is NoBatch.RANKS_APART


def test_a_process_that_ended_before_the_other_began_is_not_added_to_it(tmp_path: Path) -> None:
    writer = ranks(tmp_path, (0.01, 60))
    writer.hello(PID + 1)
    for j in range(60):
        writer.step(10.0 + j * 0.01, pid=PID + 1)
    found = measure(observed(writer), PlannedRun(), None)
    assert found.samples_per_s == pytest.approx(200.0, rel=0.01)
