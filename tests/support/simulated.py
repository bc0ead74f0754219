"""A study of a simulated training, trial by trial as the loop runs them, without its processes and its journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vtune.domain.experiment import Experiment, Limit, Limits, PlannedRun, Window, Workload
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal, TrialSpec, TrialStatus
from vtune.execution.engines.simulated.engine import SimulatedEngine, machine_of
from vtune.execution.engines.simulated.surface import Surface
from vtune.execution.observer import Watch
from vtune.execution.read import read_trial
from vtune.journal.paths import TrialPaths
from vtune.knobs.plan import batch_factor
from vtune.tuner import Strategy

# Keys as trainings have them, by the knobs' names.
KEYS = {"batch_size": "train_batch_size"}
# As long as the estimates want it, and no longer: simulated minutes cost real milliseconds.
WINDOW = Window(steps=50, max_steps=50, trial_time_s=1e6, startup_time_s=1e6)


def simulated_experiment(
    surface: Surface, *, limits: Limits | None = None, window: Window = WINDOW, **fields: Any
) -> Experiment:
    """With a config that names what the surface runs with, so that each knob has a way."""
    settings = {"accumulate_steps": 1, **surface.settings}
    config = {"training": {KEYS.get(name, name): value for name, value in settings.items()}}
    return Experiment(
        study=surface.name,
        workload=Workload(command=("python", "train.py", "{config}"), cwd=Path("."), config=config),
        limits=limits or Limits(),
        window=window,
        planned_run=PlannedRun(epochs=surface.epochs),
        **fields,
    )


class SimulatedStudy:
    """Its engine's clock goes on from trial to trial."""

    def __init__(self, surface: Surface, experiment: Experiment, root: Path, *, launch_seed: int = 0) -> None:
        self.engine = SimulatedEngine(surface, launch_seed=launch_seed)
        self.experiment, self.root, self.machine = experiment, root, machine_of(surface)

    def measure(self, proposal: Proposal, history: Sequence[TrialRecord]) -> TrialRecord:
        trial = max((one.trial for one in history), default=0) + 1
        folder = TrialPaths(self.root / f"{trial:04d}")
        folder.root.mkdir(parents=True, exist_ok=True)
        spec = TrialSpec(
            trial=trial, origin=proposal.origin, reason=proposal.reason, settings=dict(proposal.settings), effects=(),
            command=("python", "train.py"), cwd=".", env={}, token="t", race=proposal.race,
            predicted=proposal.predicted, beat=proposal.beat,
        )  # fmt: skip
        limits, experiment = self.experiment.limits, self.experiment
        watch = Watch(
            window=experiment.window,
            planned=experiment.planned_run,
            batch_factor=batch_factor(proposal.settings, experiment),
            ram_limit_bytes=limits.ram.resolve(self.machine.ram_bytes) if limits.ram else None,
            vram_limit=limits.vram,
            cores=self.machine.cores,
            earlier=tuple(history),
        )
        outcome = self.engine.run(spec, folder, watch, lambda event: None)
        return read_trial(experiment, self.machine, spec, outcome, folder, earlier=history)

    def run(
        self,
        strategy: Strategy,
        history: Sequence[TrialRecord] = (),
        *,
        most: int = 100,
        seen: Callable[[Proposal, TrialRecord], None] = lambda proposal, record: None,
    ) -> list[TrialRecord]:
        """To the strategy's own end; one that has none is an error."""
        records = list(history)
        while (proposal := strategy.propose(records)) is not None:
            assert len(records) - len(history) < most, "it does not end"
            record = self.measure(proposal, records)
            seen(proposal, record)
            records.append(record)
            if record.status is TrialStatus.INTERRUPTED:
                break
        return records


def limited(*, ram: float | None = None, vram: float | None = None) -> Limits:
    """Shares of what the machine has."""
    return Limits(
        ram=None if ram is None else Limit(fraction=ram, text=f"{ram:.0%}"),
        vram=None if vram is None else Limit(fraction=vram, text=f"{vram:.0%}"),
    )


def quicker(surface: Surface, **fields: Any) -> Surface:
    return replace(surface, **fields)
