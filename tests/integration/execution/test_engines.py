"""What every engine keeps to: the same folder, whoever ran the trial."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from vtune.domain.compared import Beat
from vtune.domain.effects import FindCeiling, Scalar
from vtune.domain.experiment import Experiment, Limit, Limits, PlannedRun, Window, Workload
from vtune.domain.machine import Machine
from vtune.domain.progress import TrialProgress, TuningEvent
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialOutcome, TrialSpec, TrialStatus
from vtune.errors import UsageError
from vtune.execution.ceiling import ORIGIN
from vtune.execution.engines.engine import Engine
from vtune.execution.engines.local import LocalEngine
from vtune.execution.engines.simulated.engine import SimulatedEngine, machine_of
from vtune.execution.engines.simulated.surface import (
    GIB,
    Box,
    Device,
    LoaderCost,
    Memory,
    SampleCost,
    StepCost,
    Surface,
)
from vtune.execution.observer import Watch
from vtune.execution.read import read_trial
from vtune.journal.paths import TrialPaths
from vtune.journal.step_log import StepLog
from vtune.journal.trial_files import read_outcome

INJECT = Path(__file__).resolve().parents[3] / "vtune" / "worker" / "inject"
TRAINING = Path(__file__).with_name("engine_training.py")
SURFACE = Surface(
    name="small",
    sample=SampleCost(cpu_s=0.001, cv=0.1),
    loader=LoaderCost(dispatch_s=1e-4, receive_s=1e-4),
    step=StepCost(base_s=0.002, cv=0.05),
    box=Box(cores=4, ram_bytes=8 * GIB, shm_bytes=GIB),
    settings={"workers": 1, "prefetch_factor": 2, "batch_size": 2},
    startup_s=2.0,
)
WINDOW = Window(steps=20, max_steps=20)


@dataclass(frozen=True)
class Ran:
    record: TrialRecord
    outcome: TrialOutcome
    folder: TrialPaths
    told: tuple[TrialProgress, ...]


class Run(Protocol):
    def __call__(
        self,
        settings: Mapping[str, Scalar],
        *,
        window: Window = WINDOW,
        limits: Limits | None = None,
        ceiling: FindCeiling | None = None,
        press: Callable[[TrialProgress], bool] | None = None,
        beat: Beat | None = None,
        **kind: Any,
    ) -> Ran: ...


def simulated(settings: Mapping[str, Scalar], kind: Mapping[str, Any]) -> tuple[Engine, tuple[str, ...]]:
    surface = SURFACE
    if kind.get("out_of") == "vram":
        surface = replace(surface, device=Device(vram_bytes=4 * GIB, base_bytes=3 * GIB, sample_bytes=2 * GIB))
    if kind.get("out_of") == "ram":
        surface = replace(surface, memory=Memory(worker_bytes=20 * GIB))
    if "samples" in kind:
        surface = replace(surface, samples_per_epoch=kind["samples"])
    if "step_s" in kind:
        surface = replace(surface, step=StepCost(base_s=kind["step_s"]))
    return SimulatedEngine(surface), ("python", "train.py")


def local(settings: Mapping[str, Scalar], kind: Mapping[str, Any]) -> tuple[Engine, tuple[str, ...]]:
    flags = [f"--{name}={value}" for name, value in settings.items()]
    flags += [f"--{name.replace('_', '-')}={value}" for name, value in kind.items()]
    return LocalEngine(INJECT), (sys.executable, str(TRAINING), *flags)


@pytest.fixture(params=["simulated", pytest.param("local", marks=pytest.mark.slow)])
def engine_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(engine_name: str, tmp_path: Path) -> Run:
    """`press`: whether whoever watches presses Ctrl-C now; once."""
    make: Callable[..., tuple[Engine, tuple[str, ...]]] = {"simulated": simulated, "local": local}[engine_name]

    def run_one(
        settings: Mapping[str, Scalar],
        *,
        window: Window = WINDOW,
        limits: Limits | None = None,
        ceiling: FindCeiling | None = None,
        press: Callable[[TrialProgress], bool] | None = None,
        beat: Beat | None = None,
        **kind: Any,
    ) -> Ran:
        engine, command = make(settings, kind)
        trials = tmp_path / "trials"
        trials.mkdir(exist_ok=True)
        number = len(list(trials.iterdir())) + 1
        folder = TrialPaths(trials / f"{number:04d}")
        folder.root.mkdir()
        spec = TrialSpec(
            trial=number, origin="probe" if ceiling is None else ORIGIN, reason="a test", settings=settings,
            effects=() if ceiling is None else (ceiling,), command=command, cwd=str(tmp_path), env={},
            token="0123456789abcdef0123456789abcdef", beat=beat,
        )  # fmt: skip
        limits = limits or Limits()
        experiment = Experiment(
            study="s", workload=Workload(command=command, cwd=tmp_path), window=window, limits=limits
        )
        watch = Watch(
            window=window,
            planned=PlannedRun(),
            ram_limit_bytes=limits.ram.bytes if limits.ram else None,
            vram_limit=limits.vram,
            ceiling=ceiling is not None,
        )
        told: list[TrialProgress] = []
        pressed: list[TrialProgress] = []

        def notify(event: TuningEvent) -> None:
            assert isinstance(event, TrialProgress)
            told.append(event)
            if press is not None and not pressed and press(event):
                pressed.append(event)
                raise KeyboardInterrupt

        outcome = engine.run(spec, folder, watch, notify)
        record = read_trial(experiment, MACHINE, spec, outcome, folder)
        return Ran(record, outcome, folder, tuple(told))

    return run_one


MACHINE: Machine = machine_of(SURFACE)


def test_a_trial_ends_when_its_window_is_full_and_leaves_nothing_but_its_folder(run: Run, tmp_path: Path) -> None:
    ran = run({})
    record = ran.record
    assert (record.status, ran.outcome.ended_by, ran.outcome.exit_code) == (TrialStatus.COMPLETED, "window", 0)
    assert record.measurement.steps_measured >= 20
    assert record.measurement.samples_per_s is not None and record.measurement.samples_per_s > 10
    assert record.measurement.rate_from == "twin"
    assert record.measurement.ram_peak_bytes is None or record.measurement.ram_peak_bytes > 10 * 2**20
    assert record.measurement.startup_s is not None and record.measurement.startup_s > 0.1
    assert record.seconds == ran.outcome.seconds > 0
    assert read_outcome(ran.folder) == ran.outcome
    assert [path.name for path in tmp_path.iterdir()] == ["trials"]
    assert {
        "spec.json", "pythons.jsonl", "telemetry.jsonl", "supervisor.json", "outcome.json", "stop", "output",
        "stdout.log", "stderr.log",
    } <= {path.name for path in ran.folder.root.iterdir()}  # fmt: skip
    assert len(ran.folder.step_records()) == 2  # the training's own, and its worker's


def test_what_was_asked_is_what_the_loader_ran_with(run: Run) -> None:
    asked = {"workers": 2, "prefetch_factor": 3, "batch_size": 4}
    record = run(asked).record
    assert record.status is TrialStatus.COMPLETED
    assert {name: record.measurement.effective_settings[name] for name in asked} == asked
    assert record.measurement.effective_batch == 4
    assert record.measurement.worker_cost is not None and record.measurement.worker_cost.batch_s > 0.003


def test_without_workers_the_loading_is_seen_all_the_same(run: Run) -> None:
    record = run({"workers": 0}).record
    assert record.status is TrialStatus.COMPLETED
    assert record.measurement.worker_cost is None
    assert record.measurement.data_wait_fraction is not None and record.measurement.data_wait_fraction > 0.2


@pytest.mark.parametrize(("out_of", "status"), [("vram", TrialStatus.OUT_OF_VRAM), ("ram", TrialStatus.OUT_OF_RAM)])
def test_a_training_that_runs_out_of_memory_is_named_by_its_last_words(
    run: Run, out_of: str, status: TrialStatus
) -> None:
    ran = run({}, out_of=out_of)
    assert (ran.record.status, ran.outcome.ended_by, ran.outcome.exit_code) == (status, "itself", 1)
    assert ran.record.detail is not None and "memory" in ran.record.detail


def test_a_trial_over_its_limit_is_stopped(run: Run) -> None:
    limits = Limits(ram=Limit(bytes=20 * 2**20, text="20MiB"))
    ran = run({}, window=Window(steps=5000, max_steps=5000), limits=limits)
    if ran.record.measurement.ram_peak_bytes is None:
        pytest.skip("this kernel does not tell what the processes share")
    assert (ran.record.status, ran.outcome.ended_by) == (TrialStatus.OUT_OF_RAM, "limit")
    assert ran.record.detail is not None and "over the limit of" in ran.record.detail


def test_the_trial_time_ends_a_trial_with_what_it_has(run: Run) -> None:
    ran = run({}, window=Window(steps=5000, max_steps=5000, trial_time_s=2.0))
    assert (ran.record.status, ran.outcome.ended_by) == (TrialStatus.COMPLETED, "trial_time")
    assert ran.record.detail is not None and "ended by the trial time of 2 s" in ran.record.detail


def test_too_few_steps_in_the_trial_time_are_no_answer(run: Run) -> None:
    ran = run({}, window=Window(trial_time_s=1.5), step_s=0.6)
    assert (ran.record.status, ran.outcome.ended_by) == (TrialStatus.TIMED_OUT, "trial_time")


def test_a_training_that_does_not_start_in_time_is_not_observed(run: Run) -> None:
    ran = run({}, window=Window(startup_time_s=0.2))
    assert (ran.record.status, ran.outcome.ended_by) == (TrialStatus.NOT_OBSERVED, "startup_time")


def test_a_training_that_is_over_first_ends_by_itself(run: Run) -> None:
    ran = run({}, window=Window(steps=500, max_steps=500), samples=120)
    assert (ran.record.status, ran.outcome.ended_by, ran.outcome.exit_code) == (TrialStatus.COMPLETED, "itself", 0)


def test_one_that_is_over_after_a_few_steps_is_too_short(run: Run) -> None:
    ran = run({}, samples=10)
    assert (ran.record.status, ran.outcome.ended_by) == (TrialStatus.TOO_SHORT, "itself")


def test_whoever_watches_is_told_how_far_it_came(run: Run) -> None:
    ran = run({}, window=Window(steps=300, max_steps=300), step_s=0.01)
    steps, seconds = [event.steps for event in ran.told], [event.seconds for event in ran.told]
    assert steps == sorted(steps) and seconds == sorted(seconds)
    # Meanwhile, not only of its end.
    assert any(event.phase == "stepping" and 0 < event.steps < 300 for event in ran.told)
    assert {(event.spec.trial, event.steps_wanted) for event in ran.told} == {(1, 300)}
    assert 0 < seconds[-1] <= ran.outcome.seconds + 1.0


def test_an_interrupt_ends_a_trial_with_what_it_has(run: Run) -> None:
    ran = run({}, window=Window(steps=300, max_steps=300), step_s=0.01, press=lambda event: event.steps >= 20)
    assert (ran.record.status, ran.outcome.ended_by) == (TrialStatus.INTERRUPTED, "interrupt")
    assert read_outcome(ran.folder) == ran.outcome
    assert 20 <= ran.record.measurement.steps_measured < 300
    assert ran.record.measurement.samples_per_s is not None


def test_batches_that_come_in_any_order_are_known_by_their_numbers(run: Run) -> None:
    ran = run({"workers": 2, "in_order": False})
    assert ran.record.status is TrialStatus.COMPLETED
    assert ran.record.measurement.effective_settings["in_order"] is False
    assert ran.record.measurement.rate_from == "twin"
    log = StepLog(ran.folder)
    while log.refresh():
        pass
    numbers = [batch.index for batch in log.delivered]
    # Each once; at its end at most what was on its way is missing: two workers with two batches each.
    assert len(set(numbers)) == len(numbers) >= 20
    assert min(numbers) == 0 and max(numbers) < len(numbers) + 4


def test_the_ceiling_is_searched_for_or_refused_before_anything_is_written(
    run: Run, engine_name: str, tmp_path: Path
) -> None:
    train = run({}).record.evidence["train_loader"]
    assert isinstance(train, dict)
    asked = FindCeiling(loader=train["key"], ladder_s=2.0)
    if engine_name == "simulated":
        with pytest.raises(UsageError, match="cannot be fed from memory"):
            run({}, ceiling=asked)
        assert list((tmp_path / "trials" / "0002").iterdir()) == []
        return
    found = run({}, ceiling=asked).record
    assert found.status is TrialStatus.COMPLETED
    assert found.measurement.ceiling is not None and found.measurement.ceiling.ladder
    # No run is like it.
    assert found.measurement.samples_per_s is None


def test_a_trial_that_surely_stays_below_the_leader_is_ended_early(run: Run) -> None:
    beat = Beat(trial=7, ranked_by="samples_per_s", samples_per_s=9e5, at_least=8e5)
    ran = run({}, window=Window(steps=2000, max_steps=2000), beat=beat)
    record = ran.record
    assert (record.status, ran.outcome.ended_by, ran.outcome.exit_code) == (TrialStatus.COMPLETED, "beaten", 0)
    # A real one goes on for as long as it takes to be seen.
    assert 20 <= record.measurement.steps_measured < 1000
    assert record.beaten == beat and record.measurement.samples_per_s is not None
    assert record.detail is not None and record.detail.startswith(
        f"ended after {record.measurement.steps_measured} steps: at most "
    )
    assert record.detail.endswith("samples/s, trial 7 has at least 800000")
    assert not any("longer" in line for line in record.diagnosis.next)


def test_a_trial_that_may_be_as_fast_as_the_leader_is_measured_to_its_end(run: Run) -> None:
    beat = Beat(trial=7, ranked_by="samples_per_s", samples_per_s=10.0, at_least=9.0)
    ran = run({}, window=Window(steps=40, max_steps=40), beat=beat)
    assert ran.outcome.ended_by == "window" and ran.record.beaten is None
