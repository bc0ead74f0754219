"""Trials as a study would have them, each simulated and read once, whichever search asks for it.

Four launches of each setting; a run's seed says which of them comes, and by how much that launch was luckier still.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from search.cache import Lines, code_hash, own_code
from search.trainings import Training
from vtune.domain.record import Measurement, TrialRecord
from vtune.domain.trial import Proposal, TrialSpec
from vtune.execution.engines.simulated.engine import SimulatedEngine
from vtune.execution.engines.simulated.surface import Settings, settings_of
from vtune.execution.observer import Watch
from vtune.execution.read import read_trial
from vtune.journal.paths import TrialPaths
from vtune.journal.records import record_from_json, record_to_json
from vtune.knobs.plan import batch_factor

MADE_BY, STAGES = ("vtune.execution.engines.simulated.engine", "vtune.execution.read"), ("analysis", "execution")
LAUNCHES = 4
# Of a launch, beyond what the simulation makes of it: every run of a search sees numbers of its own.
LUCK_SD = 0.015
# What is as much more as the launch was faster, and what is as much less; by name, wherever it stands.
RATES = frozenset(
    (
        "samples_per_s", "samples_per_s_ci95", "compute_samples_per_s", "loader_samples_per_s", "voxels_per_s",
        "samples_per_s_whole_run", "samples_per_s_at_worst",
    )
)  # fmt: skip
TIMES = frozenset(
    (
        "step_time_s", "batch_s", "median_s", "dispatch_s", "delivery_s", "period_extra_s", "startup_s",
        "first_batch_s", "epoch_restart_s", "epoch_restart_wait_s", "between_epochs_s", "device_step_s",
        "device_gap_s", "device_s", "host_s", "seconds", "after_step_s", "epoch_s", "run_s",
    )
)  # fmt: skip


class Bank:
    def __init__(self, training: Training, folder: Path) -> None:
        self._training = training
        told = repr((training.surface, training.experiment))
        self.code = code_hash(MADE_BY, told, own_code("bank"), stages=STAGES)
        self._kept = Lines(folder / "records" / f"{training.name}-{self.code}.jsonl")
        self._read: dict[str, TrialRecord] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def launch(self, proposal: Proposal, *, trial: int, seed: int, again: int) -> TrialRecord:
        """`again`: how often these settings were launched before, in this run."""
        settings = settings_of(self._training.surface, proposal.settings)
        told = f"{dataclasses.astuple(settings)} {proposal.steps}"
        number = (zlib.crc32(f"{told} {seed}".encode()) + again) % LAUNCHES
        record = self._record(f"{told} {number}", settings, proposal, number)
        luck = np.random.default_rng((zlib.crc32(told.encode()), seed, again)).standard_normal()
        return luckier(
            replace(
                record,
                trial=trial,
                origin=proposal.origin,
                reason=proposal.reason,
                asked=dict(proposal.settings),
                settings={**record.measurement.effective_settings, **proposal.settings},
                race=proposal.race,
                predicted=proposal.predicted,
            ),
            math.exp(LUCK_SD * luck),
        )

    def _record(self, key: str, settings: Settings, proposal: Proposal, number: int) -> TrialRecord:
        if key not in self._read:
            told = self._kept.get(key)
            if told is None:
                self._kept.put(key, record_to_json(self._simulated(settings, proposal, number)))
                told = self._kept.get(key)
            self._read[key] = record_from_json(told)
        return self._read[key]

    def _simulated(self, settings: Settings, proposal: Proposal, number: int) -> TrialRecord:
        experiment, machine = self._training.experiment, self._training.machine
        # Each at an hour of its own: the weather is another.
        seed = zlib.crc32(repr(dataclasses.astuple(settings)).encode()) % 1000
        engine = SimulatedEngine(self._training.surface, launch_seed=LAUNCHES * seed + number)
        window = experiment.window
        if proposal.steps is not None:
            window = replace(window, steps=proposal.steps[0], max_steps=max(proposal.steps[1], window.max_steps))
        limits = experiment.limits
        with tempfile.TemporaryDirectory() as scratch:
            folder = TrialPaths(Path(scratch) / "0001")
            folder.root.mkdir()
            spec = TrialSpec(
                trial=1,
                origin="bank",
                reason="",
                settings=dict(proposal.settings),
                effects=(),
                command=("python", "train.py"),
                cwd=".",
                env={},
                token="bank",
            )
            watch = Watch(
                window=window,
                planned=experiment.planned_run,
                batch_factor=batch_factor(proposal.settings, experiment),
                ram_limit_bytes=limits.ram.resolve(machine.ram_bytes) if limits.ram else None,
                vram_limit=limits.vram,
            )
            outcome = engine.run(spec, folder, watch, lambda event: None)
            return read_trial(experiment, machine, spec, outcome, folder)


def luckier(record: TrialRecord, factor: float) -> TrialRecord:
    """The same launch at another pace of the machine: what counts in seconds moves together."""
    measured = _paced(record.measurement, factor)
    assert isinstance(measured, Measurement)
    return replace(record, measurement=measured, seconds=record.seconds / factor)


def _paced(value: Any, factor: float) -> Any:
    if isinstance(value, tuple):
        return tuple(_paced(one, factor) for one in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    changed = {}
    for field in dataclasses.fields(value):
        now = getattr(value, field.name)
        if field.name in RATES:
            changed[field.name] = _times(now, factor)
        elif field.name in TIMES:
            changed[field.name] = _times(now, 1 / factor)
        elif dataclasses.is_dataclass(now) or isinstance(now, tuple):
            changed[field.name] = _paced(now, factor)
    return replace(value, **changed)


def _times(value: Any, factor: float) -> Any:
    if value is None or isinstance(value, Mapping):
        return value
    if isinstance(value, tuple):
        return tuple(_times(one, factor) for one in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{one.name: _times(getattr(value, one.name), factor) for one in dataclasses.fields(value)}
        )
    return value * factor
