"""The simulated loader against torch's rules and arithmetic by hand."""

from dataclasses import replace
from itertools import pairwise
from math import log
from statistics import fmean

import pytest

from vtune.execution.engines.simulated.launch import Launch, field_at
from vtune.execution.engines.simulated.surface import (
    Box,
    LoaderCost,
    Noise,
    SampleCost,
    StepCost,
    Surface,
    Unmodelled,
    settings_of,
)
from vtune.execution.engines.simulated.surfaces import SURFACES, misspecified
from vtune.execution.engines.simulated.training import Training
from vtune.execution.engines.simulated.truth import true_rate, true_whole_run_rate
from vtune.execution.engines.simulated.weather import Weather

NOTHING = LoaderCost(fork_s=0.0, boot_s=0.0)
# 0.1 s a sample in a worker, 0.04 s a batch in the training.
CONSTANT = Surface(
    name="constant",
    sample=SampleCost(cpu_s=0.1),
    loader=NOTHING,
    step=StepCost(base_s=0.04),
    noise=Noise(launch_sd=0.0),
    startup_s=0.0,
)


def run(surface: Surface, steps: int, launch: int = 1, **settings: object) -> Training:
    effective = settings_of(surface, settings)
    weather = Weather(surface.noise, surface.seed)
    training = Training(surface, effective, Launch(surface, effective, launch, weather), started_s=0.0, pid=100)
    training.go_on(steps)
    return training


@pytest.mark.parametrize(
    ("workers", "batch", "rate"),
    [(0, 1, 1 / 0.14), (1, 1, 10.0), (2, 1, 20.0), (4, 1, 25.0), (4, 3, 3 * min(4 / 0.3, 25))],
)
def test_constant_costs_give_the_rate_of_the_narrower_side(workers: int, batch: int, rate: float) -> None:
    settings = {"workers": workers, "batch_size": batch}
    assert true_rate(CONSTANT, settings, batches=2000) == pytest.approx(rate, rel=2e-3)


def test_workers_beyond_the_cores_take_turns() -> None:
    surface = replace(CONSTANT, box=Box(cores=2), step=StepCost(base_s=0.001))
    training = run(surface, 400, workers=8)
    assert true_rate(surface, {"workers": 8}, batches=2000) == pytest.approx(20.0, rel=5e-3)
    late = training.loads[100:]
    assert fmean(load.finished_s - load.started_s for load in late) == pytest.approx(0.4, rel=0.02)
    assert fmean(load.cpu_s for load in late) == pytest.approx(0.1, rel=0.02)
    assert fmean(load.queued_s for load in late) == pytest.approx(0.3, rel=0.03)


def test_a_latency_is_no_work_for_the_cores() -> None:
    surface = replace(CONSTANT, sample=SampleCost(latency_s=0.1), box=Box(cores=1), step=StepCost(base_s=0.001))
    assert true_rate(surface, {"workers": 8}, batches=2000) == pytest.approx(80.0, rel=5e-3)


def test_a_full_line_is_not_widened_by_more_workers() -> None:
    surface = replace(
        CONSTANT,
        sample=SampleCost(read_bytes=1e6),
        box=Box(storage_bytes_per_s=20e6, stream_bytes_per_s=10e6),
        step=StepCost(base_s=0.001),
    )
    rates = [true_rate(surface, {"workers": workers}, batches=2000) for workers in (1, 2, 8)]
    assert rates == [pytest.approx(10.0, rel=5e-3), pytest.approx(20.0, rel=5e-3), pytest.approx(20.0, rel=5e-3)]


def test_a_lock_around_all_loading_leaves_one_worker() -> None:
    surface = replace(CONSTANT, loader=replace(NOTHING, serialized=True))
    assert true_rate(surface, {"workers": 4}, batches=2000) == pytest.approx(10.0, rel=5e-3)


@pytest.mark.parametrize("in_order", [True, False])
def test_each_index_is_delivered_once_and_in_order_where_order_is_kept(in_order: bool) -> None:
    surface = replace(CONSTANT, sample=SampleCost(cpu_s=0.1, cv=0.8), samples_per_epoch=301, epochs=2)
    training = run(surface, 10**6, workers=4, batch_size=3, in_order=in_order)
    assert training.over
    for one in training.passes:
        own = [batch for batch in training.deliveries if batch.pass_number == one.number]
        assert one.batches == one.length == len(own) == 101
        assert sum(batch.samples for batch in own) == 301
        numbers = [batch.index for batch in own]
        assert sorted(numbers) == list(range(101))
        assert (numbers == list(range(101))) is in_order
    pids = training.passes[0].worker_pids
    loaded = [load.index for load in training.loads if load.pid in pids]
    assert sorted(loaded) == list(range(101))
    if in_order:
        # Strictly in turn, however long one of them takes.
        assert all(load.worker == load.index % 4 for load in training.loads)


def test_no_more_batches_are_under_way_than_workers_times_prefetch() -> None:
    surface = replace(CONSTANT, step=StepCost(base_s=0.5))
    training = run(surface, 100, workers=3, prefetch_factor=2)
    # A batch that is begun was ordered when the one six before it was taken.
    taken = {batch.index: batch.returned_s for batch in training.deliveries}
    assert all(load.started_s >= taken[load.index - 6] for load in training.loads if load.index >= 6)
    begun = [load for load in training.loads if load.started_s < training.deliveries[0].returned_s + 0.4]
    assert len(begun) == 7


def test_a_slow_batch_holds_up_all_that_come_after_it_unless_order_is_given_up() -> None:
    slow = replace(CONSTANT, sample=SampleCost(cpu_s=0.1, slow_fraction=0.02, slow_factor=10.0))
    loads_only = replace(slow, step=StepCost(base_s=0.001))
    in_order = true_rate(loads_only, {"workers": 8}, batches=6000)
    any_order = true_rate(loads_only, {"workers": 8, "in_order": False}, batches=6000)
    busy = 8 / (0.1 * (1 + 0.02 * 9))
    # 0.58 of what the workers could do is what is known for eight workers and two batches ahead.
    assert in_order / busy == pytest.approx(0.58, abs=0.05)
    assert any_order > 1.3 * in_order
    deeper = true_rate(loads_only, {"workers": 8, "prefetch_factor": 8}, batches=6000)
    assert deeper / busy == pytest.approx(0.80, abs=0.05)


@pytest.mark.parametrize(("workers", "prefetch"), [(1, 1), (3, 2), (8, 1), (8, 4)])
def test_without_contention_its_schedule_is_the_one_that_the_loaders_rules_give(workers: int, prefetch: int) -> None:
    surface = replace(
        CONSTANT, sample=SampleCost(latency_s=0.1, cv=0.6, slow_fraction=0.03), step=StepCost(base_s=0.03, cv=0.4)
    )
    training = run(surface, 300, workers=workers, prefetch_factor=prefetch)
    load_s = {load.index: load.finished_s - load.started_s for load in training.loads}
    finished: list[float] = []
    taken: list[float] = []
    ended = 0.0
    for index in range(300):
        free = finished[index - workers] if index >= workers else 0.0
        ordered = taken[index - workers * prefetch] if index >= workers * prefetch else 0.0
        finished.append(max(free, ordered) + load_s[index])
        taken.append(max(finished[index], ended))
        assert training.deliveries[index].returned_s == pytest.approx(taken[index], abs=1e-6)
        ended = training.steps[index].ended_s


def test_a_slow_first_step_fills_the_queue_and_a_short_window_measures_the_queue() -> None:
    surface = replace(CONSTANT, step=StepCost(base_s=0.02, first_s=30.0))
    training = run(surface, 50, workers=4, prefetch_factor=8)
    # Ready batches last for 32 / (1 - 40 / 50) steps.
    naive = 49 / (training.steps[-1].ended_s - training.steps[0].ended_s)
    assert naive == pytest.approx(50.0, rel=0.02)
    assert true_rate(surface, {"workers": 4, "prefetch_factor": 8}, batches=4000) == pytest.approx(40.0, rel=0.01)


def test_workers_that_are_not_kept_are_forked_again_in_each_epoch() -> None:
    surface = replace(
        CONSTANT,
        loader=LoaderCost(fork_s=0.05, boot_s=1.0, first_batch_s=0.5),
        samples_per_epoch=40,
        epochs=3,
        validation_s=2.0,
    )
    anew, kept = run(surface, 10**6, workers=4), run(surface, 10**6, workers=4, persistent_workers=True)
    assert len({pid for one in anew.passes for pid in one.worker_pids}) == 12
    assert len({pid for one in kept.passes for pid in one.worker_pids}) == 4
    assert [(one.iterator, one.resume) for one in kept.passes] == [(0, 0), (0, 1), (0, 2)]
    assert {load.resume for load in kept.loads} == {0, 1, 2}
    assert kept.passes[1].ready_s - kept.passes[1].begun_s == pytest.approx(0.0)
    assert anew.passes[1].ready_s - anew.passes[1].begun_s == pytest.approx(4 * 0.05)

    def second_epoch_s(training: Training) -> float:
        first, second = training.passes[:2]
        assert first.ended_s is not None and second.ended_s is not None
        return second.ended_s - first.ended_s

    # Forking four, starting up, the first batch's own cost (and joining the old ones).
    assert second_epoch_s(anew) - second_epoch_s(kept) == pytest.approx(0.2 + 1.0 + 0.5, abs=0.06)


def test_a_whole_run_pays_its_restarts() -> None:
    surface = replace(CONSTANT, samples_per_epoch=100, epochs=10, validation_s=3.0, startup_s=20.0)
    assert true_whole_run_rate(surface, {"workers": 4}, batches=1000) == pytest.approx(
        1000 / (20 + 10 * 4.1 + 9 * 3), rel=0.02
    )


def test_pinning_is_a_thread_of_its_own_that_may_be_the_narrowest_place() -> None:
    surface = replace(
        CONSTANT, sample=SampleCost(cpu_s=0.1, batch_bytes=1e6), loader=replace(NOTHING, pin_bytes_per_s=1e7)
    )
    assert true_rate(surface, {"workers": 4}, batches=1000) == pytest.approx(25.0, rel=5e-3)
    assert true_rate(surface, {"workers": 4, "pin_memory": True}, batches=1000) == pytest.approx(10.0, rel=5e-3)


def test_accumulation_makes_one_step_of_several_batches() -> None:
    training = run(CONSTANT, 10, workers=2, accumulate_steps=4)
    assert len(training.steps) == 10 and len(training.deliveries) == 40


def test_larger_batches_cost_more_and_cliffs_come_on_top() -> None:
    surface = replace(CONSTANT, sample=SampleCost(), step=StepCost(base_s=0.1, sample_s=0.01, cliffs=((8, 1.5),)))
    assert true_rate(surface, {"batch_size": 4}, batches=500) == pytest.approx(4 / 0.14, rel=5e-3)
    assert true_rate(surface, {"batch_size": 8}, batches=500) == pytest.approx(8 / 0.27, rel=5e-3)


def test_work_of_every_nth_step_comes_every_nth_step() -> None:
    surface = replace(CONSTANT, sample=SampleCost(), step=StepCost(base_s=0.1, every_steps=5, every_s=1.0))
    ends = [step.ended_s for step in run(surface, 30).steps]
    long = [number for number, (a, b) in enumerate(pairwise(ends), 2) if b - a > 0.5]
    assert long == [5, 10, 15, 20, 25, 30]


def test_a_launch_is_the_same_again_by_its_number_and_another_one_differs_a_little() -> None:
    surface = replace(CONSTANT, sample=SampleCost(cpu_s=0.1, cv=0.3), noise=Noise(launch_sd=0.01))
    ends = [run(surface, 60, launch=launch, workers=2).steps[-1].ended_s for launch in (1, 1, 2)]
    assert ends[0] == ends[1] != ends[2]


def test_a_seeded_training_sees_the_same_samples_whatever_the_batch_size() -> None:
    surface = replace(CONSTANT, sample=SampleCost(cpu_s=0.1, cv=1.0), seeded=True)
    ones, twos = run(surface, 40, launch=1, workers=1), run(surface, 20, launch=2, workers=1, batch_size=2)
    singles = [load.cpu_s for load in ones.loads[:40]]
    pairs = [a + b for a, b in zip(singles[::2], singles[1::2], strict=True)]
    assert [load.cpu_s for load in twos.loads[:20]] == pytest.approx(pairs)


def test_the_field_that_no_model_knows_is_smooth_seeded_and_of_the_size_that_was_asked() -> None:
    surface = replace(CONSTANT, unmodelled=Unmodelled(field_sd=0.1))

    def factor(seed: int, workers: int, batch: int = 1) -> float:
        return field_at(replace(surface, seed=seed), settings_of(surface, {"workers": workers, "batch_size": batch}))

    assert factor(3, 4) == factor(3, 4) != factor(4, 4)
    spread = [log(factor(seed, 4)) for seed in range(300)]
    assert fmean(x * x for x in spread) ** 0.5 == pytest.approx(0.1, rel=0.15)
    near = fmean(abs(factor(seed, 8) - factor(seed, 9)) for seed in range(100))
    far = fmean(abs(factor(seed, 1) - factor(seed, 15, 8)) for seed in range(100))
    assert near < far / 5
    truths = [true_rate(one, {"workers": 4}, batches=400) for one in (surface, replace(surface, unmodelled=None))]
    assert truths[0] / truths[1] == pytest.approx(field_at(surface, settings_of(surface, {"workers": 4})))


def test_costs_that_come_in_stretches_are_alike_for_neighbours() -> None:
    def likeness(surface: Surface) -> float:
        costs = [load.cpu_s for load in run(surface, 600, workers=1).loads]
        mean = fmean(costs)
        return sum((a - mean) * (b - mean) for a, b in pairwise(costs)) / sum((a - mean) ** 2 for a in costs)

    plain = replace(CONSTANT, sample=SampleCost(cpu_s=0.1, cv=0.1))
    stretched = replace(plain, unmodelled=Unmodelled(field_sd=0.0, stretch_sd=0.3, stretch_samples=64))
    assert likeness(plain) < 0.2
    assert likeness(stretched) > 0.6


def test_neighbours_come_and_go_and_the_weather_of_a_seed_is_the_same_again() -> None:
    noise = Noise(drift_sd=0.02, episode_share=0.2, episode_s=60.0, episode_slowdown=0.1, episode_cores=3.0)
    one, again, other = Weather(noise, 1), Weather(noise, 1), Weather(noise, 2)
    times = [10.0 * n for n in range(3000)]
    paces = [one.at(t_s) for t_s in times]
    assert [again.at(t_s) for t_s in reversed(times)] == paces[::-1]
    assert [other.at(t_s) for t_s in times] != paces
    assert fmean(cores > 0 for _, cores in paces) == pytest.approx(0.2, abs=0.06)
    assert fmean(pace for pace, _ in paces) == pytest.approx(0.98, abs=0.02)


@pytest.mark.parametrize("surface", [*SURFACES, *map(misspecified, SURFACES[:2])], ids=lambda surface: surface.name)
def test_each_named_surface_trains(surface: Surface) -> None:
    training = run(surface, 30)
    assert len(training.steps) == 30
    assert training.steps[-1].ended_s > 0
