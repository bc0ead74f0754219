"""Walks and searches of simulated trainings where another batch brings next to nothing, or nothing is to be gained."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vtune.analysis.choose import choose
from vtune.analysis.race import DELTA
from vtune.config.plan_file import load_plan
from vtune.domain.experiment import Experiment, KnobBinding, PlannedRun, Window, Workload
from vtune.domain.phases import AskedPhases, rolled_back
from vtune.domain.record import TrialRecord
from vtune.execution.engines.simulated.engine import SimulatedEngine, machine_of
from vtune.execution.engines.simulated.surface import Noise, SampleCost, StepCost, Surface
from vtune.execution.engines.simulated.surfaces import SHARED_MACHINE
from vtune.journal.study import open_study
from vtune.knobs.registry import same_knobs
from vtune.strategies.phases import Phases
from vtune.strategies.search import Search
from vtune.tuner import Tuning, tune

Tuner = Literal["ladder", "guided", "search"]
QUIET = Noise()
NOISES = {"quiet": QUIET, "shared": SHARED_MACHINE}
# The batch that the ladder ends with is so many times the user's own.
TIMES = 4
OWN_BATCH = 4


def batch_gains(gain: float, noise: Noise = QUIET) -> Surface:
    """One worker feeds half of what the training takes, and four times the batch brings `gain` beyond that."""
    largest_s = 0.01
    # By sample: a part that a larger batch shares out, and the rest.
    shared_s = gain * largest_s * OWN_BATCH * TIMES / (TIMES - 1)
    return Surface(
        name=f"batch-gains-{1000 * gain:.0f}",
        seed=41,
        sample=SampleCost(cpu_s=0.02, cv=0.2, batch_bytes=1e5),
        step=StepCost(base_s=shared_s, sample_s=largest_s - shared_s / (OWN_BATCH * TIMES), cv=0.05),
        settings={"workers": 1, "prefetch_factor": 2, "batch_size": OWN_BATCH, "persistent_workers": True},
        noise=noise,
        samples_per_epoch=40_000,
        epochs=20,
    )


def experiment_of(surface: Surface, *, frees_batch: bool = False) -> Experiment:
    settings = {"accumulate_steps": 1, "pin_memory": False, **surface.settings}
    config = {"training": {("train_batch_size" if name == "batch_size" else name): v for name, v in settings.items()}}
    return Experiment(
        study=surface.name,
        workload=Workload(command=("python", "train.py", "{config}"), cwd=Path("."), config=config),
        window=Window(trial_time_s=1e6, startup_time_s=1e6),
        planned_run=PlannedRun(epochs=surface.epochs),
        knobs=(KnobBinding(name="batch_size"),) if frees_batch else (),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    settings: dict[str, object]
    launches: int
    # The best has another effective batch than the user's own settings.
    another_batch: bool
    # Its settings are those of a step that the walk itself rolled back.
    rolled_back: bool
    # Over the best that trains the same; None where it is that one.
    shown: bool | None
    seconds: float


def run(
    surface: Surface, tuner: Tuner, seed: int, *, up_to: int | None = None, trials: int = 20, frees_batch: bool = True
) -> Outcome:
    """By vtune's own loop, journal and all."""
    experiment, machine = experiment_of(surface, frees_batch=tuner == "search" and frees_batch), machine_of(surface)
    if tuner == "search":
        strategy: Phases | Search = Search(experiment=experiment, machine=machine, trials=trials)
    else:
        strategy = Phases(AskedPhases(plan=load_plan(tuner), up_to=up_to), experiment, machine)
    with tempfile.TemporaryDirectory() as scratch, open_study(Path(scratch), surface.name, machine) as study:
        tuning = Tuning(
            study=study,
            experiment=experiment,
            engine=SimulatedEngine(surface, launch_seed=seed),
            machine=machine,
            notify=lambda event: None,
        )
        history = tune(tuning, strategy)
    return outcome(strategy, history)


def outcome(strategy: Phases | Search, history: Sequence[TrialRecord]) -> Outcome:
    machine = strategy.machine
    back: tuple[int, ...] = ()
    if isinstance(strategy, Phases):
        back = rolled_back([rung for phase in strategy.walk(history).phases for rung in phase.rungs])
    choice = choose(
        history,
        limits=strategy.experiment.limits,
        ram_total_bytes=machine.ram_bytes,
        cores=machine.cores,
        same=same_knobs(strategy.experiment.knobs),
        rolled_back=back,
    )
    best, baseline = choice.best, choice.baseline
    assert best is not None and baseline is not None
    over = choice.over_same.get(best.trial)
    return Outcome(
        settings=dict(best.asked or {}),
        launches=len(history),
        another_batch=best.measurement.effective_batch != baseline.measurement.effective_batch,
        rolled_back=best.trial in back,
        shown=over.shown_faster_by(math.log1p(DELTA)) if over is not None else None,
        seconds=sum(one.seconds for one in history),
    )


def nothing_to_gain(noise: Noise = QUIET, *, seed: int = 31, **step: float) -> Surface:
    """The training's own work takes all of the time; two workers are enough, and no batch makes a sample cheaper."""
    return Surface(
        name="nothing-to-gain",
        seed=seed,
        sample=SampleCost(cpu_s=0.004, cv=0.2, batch_bytes=1e5),
        step=StepCost(sample_s=0.02, cv=0.1),
        settings={"workers": 2, "prefetch_factor": 2, "batch_size": 4, "persistent_workers": False},
        noise=noise,
        samples_per_epoch=6000,
        epochs=20,
    )
