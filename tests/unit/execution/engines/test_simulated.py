"""The simulated engine's own: its clock, its memory, and what of it the analysis reads."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from vtune.domain.effects import FindCeiling, Scalar
from vtune.domain.experiment import Experiment, Limit, Limits, PlannedRun, Window, Workload
from vtune.domain.progress import TrialProgress, TuningEvent
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialSpec, TrialStatus
from vtune.errors import UsageError
from vtune.execution.engines.simulated.engine import SimulatedEngine, machine_of
from vtune.execution.engines.simulated.surface import GIB, Box, Memory, Noise, SampleCost, Surface
from vtune.execution.engines.simulated.surfaces import (
    DEVICE_BOUND,
    FOUR_CORES,
    IMAGES_FAR_AWAY,
    LITTLE_RAM,
    SCROLLS,
    SHORT_EPOCHS,
    SMALL_VOLUMES,
)
from vtune.execution.engines.simulated.truth import true_rate, true_whole_run_rate
from vtune.execution.observer import Watch
from vtune.execution.read import read_trial
from vtune.journal.paths import TrialPaths
from vtune.journal.trial_files import read_outcome

FIXED = Window(steps=50, max_steps=50, trial_time_s=3600)
# Of the same samples as the truth beside it: what is left of an error is the replay's own.
LONG, AS_LONG = Window(steps=1000, max_steps=1000, trial_time_s=1e6), 1200


def run(
    engine: SimulatedEngine,
    root: Path,
    settings: dict[str, Scalar] | None = None,
    *,
    trial: int = 1,
    window: Window = FIXED,
    limits: Limits | None = None,
    epochs: int | None = None,
    earlier: Sequence[TrialRecord] = (),
) -> TrialRecord:
    folder = TrialPaths(root / f"{trial:04d}")
    folder.root.mkdir(parents=True)
    spec = TrialSpec(
        trial=trial, origin="probe", reason="a test", settings=settings or {}, effects=(),
        command=("python", "train.py"), cwd=".", env={}, token="t",
    )  # fmt: skip
    limits = limits or Limits()
    experiment = Experiment(
        study="s",
        workload=Workload(command=spec.command, cwd=Path(".")),
        window=window,
        limits=limits,
        planned_run=PlannedRun(epochs=epochs),
    )
    machine = machine_of(engine.surface)
    watch = Watch(
        window=window,
        planned=experiment.planned_run,
        ram_limit_bytes=limits.ram.resolve(machine.ram_bytes) if limits.ram else None,
        vram_limit=limits.vram,
        earlier=earlier,
    )
    outcome = engine.run(spec, folder, watch, lambda event: None)
    return read_trial(experiment, machine, spec, outcome, folder, earlier=earlier)


def quiet(surface: Surface) -> Surface:
    return replace(surface, noise=Noise(launch_sd=0.0))


@pytest.mark.parametrize(
    "surface",
    [SMALL_VOLUMES, *(pytest.param(one, marks=pytest.mark.slow) for one in (FOUR_CORES, DEVICE_BOUND))],
    ids=lambda surface: surface.name,
)
def test_a_short_trial_is_near_the_long_run(surface: Surface, tmp_path: Path) -> None:
    record = run(SimulatedEngine(quiet(surface)), tmp_path)
    assert record.status is TrialStatus.COMPLETED
    assert record.measurement.samples_per_s == pytest.approx(true_rate(surface, {}, batches=4000), rel=0.08)


def test_a_trial_of_eighteen_seconds_a_step_costs_no_time(tmp_path: Path) -> None:
    record = run(SimulatedEngine(SCROLLS), tmp_path)
    assert record.seconds > 600
    assert record.measurement.step_time_s is not None and 14 < record.measurement.step_time_s.mean < 22
    assert record.diagnosis.bottleneck == "data"
    assert record.measurement.gpus[0].util_mean is not None and record.measurement.gpus[0].util_mean < 25


def test_the_same_trial_of_the_same_engine_writes_the_same_files(tmp_path: Path) -> None:
    first = run(SimulatedEngine(SMALL_VOLUMES), tmp_path / "a")
    again = run(SimulatedEngine(SMALL_VOLUMES), tmp_path / "b")
    other = run(SimulatedEngine(SMALL_VOLUMES, launch_seed=1), tmp_path / "c")
    assert first == again
    assert first.measurement.samples_per_s != other.measurement.samples_per_s
    for one in (tmp_path / "a" / "0001").iterdir():
        if one.is_file():
            assert one.read_bytes() == (tmp_path / "b" / "0001" / one.name).read_bytes()


def test_the_clock_goes_on_from_trial_to_trial(tmp_path: Path) -> None:
    engine = SimulatedEngine(SMALL_VOLUMES)
    first = run(engine, tmp_path, trial=1)
    at_s = engine.clock_s
    run(engine, tmp_path, trial=2)
    assert at_s > first.seconds
    assert engine.clock_s > at_s + first.seconds / 2


def test_a_batch_that_the_device_cannot_hold_is_out_of_vram(tmp_path: Path) -> None:
    record = run(SimulatedEngine(SMALL_VOLUMES), tmp_path, {"batch_size": 32})
    assert record.status is TrialStatus.OUT_OF_VRAM
    assert record.detail is not None and "CUDA out of memory" in record.detail


def test_a_vram_limit_stops_a_trial_that_the_device_would_hold(tmp_path: Path) -> None:
    limits = Limits(vram=Limit(bytes=10 * GIB, text="10GiB"))
    record = run(SimulatedEngine(SMALL_VOLUMES), tmp_path, {"batch_size": 8}, limits=limits)
    assert record.status is TrialStatus.OUT_OF_VRAM
    assert record.detail is not None and "over the limit of 10" in record.detail
    assert record.measurement.vram_peak_bytes == 23 * GIB


def test_more_workers_than_the_ram_holds_end_out_of_ram(tmp_path: Path) -> None:
    assert run(SimulatedEngine(LITTLE_RAM), tmp_path, {"workers": 8}).status is TrialStatus.COMPLETED
    assert run(SimulatedEngine(LITTLE_RAM), tmp_path, {"workers": 12}, trial=2).status is TrialStatus.OUT_OF_RAM


def test_a_deep_queue_fills_shared_memory(tmp_path: Path) -> None:
    surface = replace(SMALL_VOLUMES, box=Box(shm_bytes=30 * 2**20), memory=Memory())
    assert run(SimulatedEngine(surface), tmp_path, {"batch_size": 2}).status is TrialStatus.OUT_OF_SHM


def test_memory_grows_by_workers_prefetch_and_batch(tmp_path: Path) -> None:
    engine = SimulatedEngine(quiet(IMAGES_FAR_AWAY))
    few = run(engine, tmp_path, {"workers": 4, "batch_size": 64}, trial=1).measurement
    many = run(engine, tmp_path, {"workers": 8, "batch_size": 64}, trial=2).measurement
    assert few.ram_peak_bytes is not None and many.ram_peak_bytes is not None
    assert many.ram_peak_bytes - few.ram_peak_bytes > 4 * 0.5 * GIB
    assert len(many.workers_rss_bytes) == 8
    assert few.shm_peak_bytes is not None and few.shm_peak_bytes > 0


def test_latency_is_told_from_work_by_the_processor_time(tmp_path: Path) -> None:
    far, near = (
        run(SimulatedEngine(quiet(surface)), tmp_path / surface.name).measurement.worker_cost
        for surface in (IMAGES_FAR_AWAY, SMALL_VOLUMES)
    )
    assert far is not None and far.cpu_fraction is not None and far.cpu_fraction < 0.3
    assert near is not None and near.cpu_fraction is not None and near.cpu_fraction > 0.6


WITHOUT_ORDER = [
    (LITTLE_RAM, {"workers": 2}),
    pytest.param(LITTLE_RAM, {"workers": 6, "prefetch_factor": 4}, marks=pytest.mark.slow),
    pytest.param(SMALL_VOLUMES, {"workers": 4}, marks=pytest.mark.slow),
    pytest.param(IMAGES_FAR_AWAY, {"workers": 4, "batch_size": 32}, marks=pytest.mark.slow),
]


def ids(case: object) -> str:
    return case.name if isinstance(case, Surface) else ""


@pytest.mark.parametrize(("surface", "settings"), WITHOUT_ORDER, ids=ids)
def test_without_order_the_replay_comes_to_the_long_run(
    surface: Surface, settings: dict[str, Scalar], tmp_path: Path
) -> None:
    engine, asked = SimulatedEngine(replace(quiet(surface), seeded=True)), {**settings, "in_order": False}
    measured = run(engine, tmp_path, asked, window=LONG).measurement
    assert measured.rate_from == "twin"
    assert measured.samples_per_s == pytest.approx(true_rate(engine.surface, asked, batches=AS_LONG), rel=0.03)


@pytest.mark.parametrize(
    "settings",
    [
        {"workers": 4},
        pytest.param({"workers": 2}, marks=pytest.mark.slow),
        pytest.param({"workers": 6, "prefetch_factor": 4}, marks=pytest.mark.slow),
    ],
)
def test_what_giving_up_order_is_worth_is_told_by_a_trial_that_keeps_it(
    settings: dict[str, Scalar], tmp_path: Path
) -> None:
    engine = SimulatedEngine(replace(quiet(LITTLE_RAM), seeded=True))
    measured = run(engine, tmp_path, settings, window=LONG).measurement
    predicted = next(one for one in measured.what_if if one.change == "order_not_kept")
    truth = true_rate(engine.surface, {**settings, "in_order": False}, batches=AS_LONG)
    assert predicted.samples_per_s == pytest.approx(truth, rel=0.04)
    # It is worth something here, so an answer of "no difference" would fail.
    assert truth > 1.1 * true_rate(engine.surface, settings, batches=AS_LONG)


def test_short_epochs_show_what_keeping_the_workers_is_worth(tmp_path: Path) -> None:
    engine = SimulatedEngine(quiet(SHORT_EPOCHS))
    kept: dict[str, Scalar] = {"persistent_workers": True}
    anew_rate = run(engine, tmp_path, epochs=500).measurement.samples_per_s_whole_run
    kept_rate = run(engine, tmp_path, kept, trial=2, epochs=500).measurement.samples_per_s_whole_run
    assert anew_rate is not None and kept_rate is not None
    truth = true_whole_run_rate(engine.surface, kept, batches=2000) / true_whole_run_rate(
        engine.surface, {}, batches=2000
    )
    assert kept_rate / anew_rate == pytest.approx(truth, rel=0.15)


def test_neighbours_are_seen_by_the_sampler(tmp_path: Path) -> None:
    surface = replace(SMALL_VOLUMES, noise=Noise(episode_share=0.9, episode_cores=3.0))
    record = run(SimulatedEngine(surface), tmp_path)
    assert record.measurement.others_cores == pytest.approx(3.0)


def test_the_window_grows_until_the_interval_is_narrow(tmp_path: Path) -> None:
    window = Window(trial_time_s=3600)
    even = run(SimulatedEngine(quiet(DEVICE_BOUND)), tmp_path, trial=1, window=window)
    uneven = run(SimulatedEngine(quiet(LITTLE_RAM)), tmp_path, trial=2, window=window)
    assert even.measurement.steps_measured < 60
    assert uneven.measurement.steps_measured >= 100


def test_what_the_other_trials_know_of_slow_batches_ends_a_window_or_keeps_it_open(tmp_path: Path) -> None:
    """By the same rule as a trial of this machine: fifty batches alone would not show a slow one in a hundred."""
    engine = SimulatedEngine(quiet(replace(SMALL_VOLUMES, sample=SampleCost(cpu_s=0.12, cv=0.1))))
    window = Window(trial_time_s=3600)
    alone = run(engine, tmp_path, trial=1, window=window)
    assert alone.measurement.data_wait_fraction is not None and alone.measurement.data_wait_fraction > 0.2
    assert alone.measurement.steps_measured > 80
    after = run(engine, tmp_path, trial=2, window=window, earlier=[alone])
    assert after.measurement.steps_measured < 60
    cost = alone.measurement.worker_cost
    assert cost is not None and cost.slow == ()
    slow = replace(alone, measurement=replace(alone.measurement, worker_cost=replace(cost, slow=(10.0,) * 4)))
    warned = run(engine, tmp_path, trial=3, window=window, earlier=[slow])
    assert warned.measurement.steps_measured >= 100


def test_queues_that_fill_are_known_by_their_batches_and_are_no_leak(tmp_path: Path) -> None:
    """Sixty-four batches ahead of each worker: a window ends long before they lie there."""
    costs = SampleCost(cpu_s=0.05, cv=0.1, batch_bytes=24 * 2**20)
    surface = quiet(
        replace(SMALL_VOLUMES, sample=costs, settings={"workers": 4, "prefetch_factor": 64, "batch_size": 2})
    )
    measured = run(SimulatedEngine(surface), tmp_path, epochs=50).measurement
    assert measured.shm_peak_bytes is not None and measured.shm_peak_bytes > 2**30
    assert measured.batch_bytes == 2 * 24 * 2**20
    assert measured.shm_needed_bytes is not None and measured.shm_needed_bytes > 4 * 64 * measured.batch_bytes
    assert measured.ram_growth == ()


def test_a_search_for_the_ceiling_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    spec = TrialSpec(
        trial=1, origin="probe", reason="a test", settings={}, effects=(FindCeiling(loader="train.py:30"),),
        command=("python", "train.py"), cwd=".", env={}, token="t",
    )  # fmt: skip
    watch = Watch(window=FIXED, planned=PlannedRun())
    for asked, watched in ((spec, watch), (replace(spec, effects=()), replace(watch, ceiling=True))):
        with pytest.raises(UsageError, match="cannot be fed from memory"):
            SimulatedEngine(SMALL_VOLUMES).run(asked, TrialPaths(tmp_path), watched, lambda event: None)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_the_trial_is_ending_is_an_interrupt(tmp_path: Path) -> None:
    def press(event: TuningEvent) -> None:
        if isinstance(event, TrialProgress) and event.phase == "ending":
            raise KeyboardInterrupt

    spec = TrialSpec(
        trial=1, origin="probe", reason="a test", settings={}, effects=(), command=("python", "train.py"), cwd=".",
        env={}, token="t",
    )  # fmt: skip
    watch = Watch(window=FIXED, planned=PlannedRun())
    folder = TrialPaths(tmp_path)
    outcome = SimulatedEngine(SMALL_VOLUMES).run(spec, folder, watch, press)
    assert outcome.ended_by == "interrupt"
    assert read_outcome(folder) == outcome
