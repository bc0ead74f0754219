"""The simulated engine's own: its clock, its memory, and what of it the analysis reads."""

from dataclasses import replace
from pathlib import Path

import pytest

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment, Limit, Limits, PlannedRun, Window, Workload
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialSpec, TrialStatus
from vtune.execution.engines.simulated.engine import SimulatedEngine, machine_of
from vtune.execution.engines.simulated.surface import GIB, Box, Memory, Noise, Surface
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
from vtune.execution.read import read_trial
from vtune.execution.trial import Watch
from vtune.journal.paths import TrialPaths

FIXED = Window(steps=50, max_steps=50, trial_time_s=3600)


def run(
    engine: SimulatedEngine,
    root: Path,
    settings: dict[str, Scalar] | None = None,
    *,
    trial: int = 1,
    window: Window = FIXED,
    limits: Limits | None = None,
    epochs: int | None = None,
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
    )
    outcome = engine.run(spec, folder, watch, lambda event: None)
    return read_trial(experiment, machine, spec, outcome, folder)


def quiet(surface: Surface) -> Surface:
    return replace(surface, noise=Noise(launch_sd=0.0))


@pytest.mark.parametrize("surface", [SMALL_VOLUMES, FOUR_CORES, DEVICE_BOUND], ids=lambda surface: surface.name)
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


def test_without_order_batches_have_no_position_and_are_measured_all_the_same(tmp_path: Path) -> None:
    engine = SimulatedEngine(quiet(LITTLE_RAM))
    record = run(engine, tmp_path, {"in_order": False, "workers": 6})
    assert record.status is TrialStatus.COMPLETED
    truth = true_rate(engine.surface, {"in_order": False, "workers": 6}, batches=8000)
    assert record.measurement.samples_per_s == pytest.approx(truth, rel=0.25)


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
