"""The closed form against the event-by-event simulation and the tables that it was fitted to."""

from dataclasses import replace

import numpy as np
import pytest

from vtune.analysis.model.schedule_law import Pace, batches_per_s, crowding, in_order_efficiency, loader_batches_per_s
from vtune.analysis.schedule import Training, step_ends
from vtune.execution.engines.simulated.surface import Box, LoaderCost, Noise, SampleCost, StepCost, Surface
from vtune.execution.engines.simulated.truth import true_rate


def pace(**costs: float) -> Pace:
    usual = {
        "cpu_s": 0.1, "io_s": 1e-9, "dispatch_s": 0.0, "own_s": 0.05, "own_cpu_s": 0.0, "stop_s": 0.0,
        "stop_every": 1.0, "waited_s": 0.0, "ready_s": 0.0, "cv": 0.1, "cores": 1e6, "efficiency": 1.0, "streams": 1e6,
    }  # fmt: skip
    return Pace(**{name: np.asarray(value, float) for name, value in {**usual, **costs}.items()})


def rate(of: Pace, workers: int, prefetch: int = 2, *, in_order: bool = True) -> float:
    one = (np.asarray(float(value)) for value in (workers, prefetch, in_order))
    return float(batches_per_s(of, *one))


@pytest.mark.parametrize(
    ("workers", "prefetch", "cv", "share"),
    [(4, 2, 0.25, 0.964), (8, 1, 0.5, 0.677), (8, 2, 0.5, 0.837), (8, 8, 1.0, 0.861), (16, 4, 1.0, 0.696)],
)
def test_batches_in_order_cost_workers_what_long_replays_say(
    workers: int, prefetch: int, cv: float, share: float
) -> None:
    found = in_order_efficiency(np.asarray(float(workers)), np.asarray(float(prefetch)), np.asarray(cv))
    assert float(found) == pytest.approx(share, rel=0.03)


def test_without_workers_loading_and_training_take_turns() -> None:
    assert rate(pace(cpu_s=0.06, io_s=0.02, own_s=0.02), 0) == pytest.approx(10.0)


def test_the_slower_side_sets_the_pace_and_the_other_costs_a_little() -> None:
    assert rate(pace(), 1) == pytest.approx(10.0, rel=0.01)
    assert rate(pace(), 8) == pytest.approx(20.0, rel=0.01)
    assert 17.0 < rate(pace(cv=0.5), 2) < 20.0


def test_what_a_batch_takes_on_its_way_holds_up_workers_that_are_one_batch_ahead() -> None:
    late = pace(waited_s=0.02, own_s=0.001)
    assert rate(late, 1, 1) == pytest.approx(1 / 0.12, rel=0.01)
    assert rate(late, 1, 2) == pytest.approx(10.0, rel=0.01)
    # One that lies ready has come long ago.
    assert rate(pace(waited_s=0.02, ready_s=0.01), 8) == pytest.approx(1 / 0.06, rel=0.01)


@pytest.mark.parametrize(("workers", "prefetch"), [(0, 1), (2, 2), (4, 2), (2, 8), (8, 2)])
def test_a_training_that_stands_still_every_nth_step_gains_only_what_lies_ready_then(
    workers: int, prefetch: int
) -> None:
    load_s, own_s, stop_s, every, batches = 0.04, 0.01, 1.5, 75, 1500
    own = np.full((batches, 1), own_s)
    own[every - 1 :: every] += stop_s
    nothing = np.zeros_like(own)
    training = Training(own=own, launch=None, delivery_waited=nothing, delivery_ready=nothing)
    ends = step_ends(np.full_like(own, load_s), training, workers=workers, prefetch=prefetch)
    law = pace(cpu_s=load_s, own_s=own_s, stop_s=stop_s, stop_every=every, cv=0.02)
    assert rate(law, workers, prefetch) == pytest.approx(batches / float(ends[-1, 0]), rel=0.03)


def test_no_order_costs_workers_nothing() -> None:
    uneven = pace(cv=1.0, own_s=0.001)
    assert rate(uneven, 8, in_order=False) > 1.3 * rate(uneven, 8)


def test_more_workers_than_cores_add_nothing() -> None:
    loader = pace(own_s=1e-6, cores=4.0)
    assert rate(loader, 16) == pytest.approx(40.0, rel=0.1)
    assert rate(loader, 2) == pytest.approx(20.0, rel=0.05)


def test_the_trainings_own_processor_time_is_taken_off_the_cores() -> None:
    assert rate(pace(own_s=0.1, own_cpu_s=0.1, cores=1.0), 8) == pytest.approx(5.0, rel=0.1)


def test_threads_of_one_core_bring_less_than_cores() -> None:
    threads = pace(own_s=1e-6, cores=16.0, efficiency=0.625)
    assert rate(threads, 4) == pytest.approx(40.0, rel=0.05)
    assert rate(threads, 16) == pytest.approx(100.0, rel=0.1)


def test_a_lock_leaves_workers_nothing_to_win() -> None:
    locked = pace(cpu_s=1e-6, io_s=0.1, own_s=1e-6, streams=1.0)
    assert rate(locked, 8) == pytest.approx(rate(locked, 1), rel=0.15)


def test_processor_time_grows_where_threads_share_cores() -> None:
    def of(busy: float, efficiency: float) -> float:
        return float(crowding(np.asarray(busy), np.asarray(8.0), np.asarray(efficiency)))

    assert of(4.0, 0.6) == pytest.approx(1.0)
    assert of(8.0, 0.6) == pytest.approx(1 / 0.6)
    assert of(16.0, 1.0) == pytest.approx(1.0)


SMALL = Surface(
    name="law",
    sample=SampleCost(cpu_s=0.03, latency_s=0.02, cv=0.3),
    loader=LoaderCost(fork_s=0.0, boot_s=0.0, overhead_cv=0.0),
    step=StepCost(base_s=0.01),
    box=Box(cores=4),
    noise=Noise(launch_sd=0.0),
)


@pytest.mark.parametrize(("workers", "prefetch", "step_s"), [(1, 2, 0.01), (4, 2, 0.01), (4, 1, 0.012), (8, 4, 0.002)])
def test_it_is_near_the_simulation_of_every_event(workers: int, prefetch: int, step_s: float) -> None:
    surface = replace(SMALL, step=StepCost(base_s=step_s))
    asked = {"workers": workers, "prefetch_factor": prefetch, "batch_size": 1}
    # Of the sum of two costs that vary apart.
    spread = 0.3 * (0.03**2 + 0.02**2) ** 0.5 / 0.05
    law = pace(cpu_s=0.03, io_s=0.02, own_s=step_s, cv=spread, cores=4.0)
    assert rate(law, workers, prefetch) == pytest.approx(true_rate(surface, asked, batches=4000), rel=0.06)


def test_the_loader_alone_is_the_rate_of_a_training_that_takes_no_time() -> None:
    one = (np.asarray(4.0), np.asarray(2.0), np.asarray(1.0))
    assert float(loader_batches_per_s(pace(), *one)) == pytest.approx(40.0, rel=0.02)
