"""Trainings that are a formula: settings in, a record out. They tell a rate and nothing that a model could learn from,
so what a strategy does with them hangs on what was measured alone."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.studies import a_failure, a_trial
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment, Workload
from vtune.domain.machine import Machine
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal, TrialStatus
from vtune.journal.records import record_from_json, record_to_json
from vtune.tuner import Strategy

MACHINE = Machine(host="made up", kernel="none", cpu_model=None, cores=12, ram_bytes=64 * 2**30, shm_bytes=32 * 2**30)
OWN: Mapping[str, Scalar] = {
    "workers": 1, "prefetch_factor": 2, "persistent_workers": False, "pin_memory": False, "batch_size": 1,
    "accumulate_steps": 1,
}  # fmt: skip
# Of what a leader has at least: a trial that is slower ends early.
SURELY_BELOW = 0.8
OF_MODEL = ("filters", "compile")
KEYS = {"batch_size": "train_batch_size"}
# A rate, how it failed, or a rate with what else was measured.
Told = float | TrialStatus | tuple[float, Mapping[str, Any]]
Settings = Mapping[str, Any]


def an_experiment(own: Mapping[str, Scalar] = OWN, **fields: Any) -> Experiment:
    """With a config that names these settings; a value of None is in no config."""
    config: dict[str, dict[str, Scalar]] = {"training": {}, "model": {}}
    for name, value in own.items():
        if value is not None:
            config["model" if name in OF_MODEL else "training"][KEYS.get(name, name)] = value
    workload = Workload(command=("python", "train.py", "{config}"), cwd=Path("."), config=config)
    return Experiment(study="made-up", workload=workload, **fields)


def launched(
    proposal: Proposal, trial: int, told: Told, *, own: Mapping[str, Scalar] = OWN, luck: float = 1.0
) -> TrialRecord:
    asked = {name: value for name, value in proposal.settings.items() if own.get(name) != value}
    if isinstance(told, TrialStatus):
        record = a_failure(trial, told, f"it is {told}", asked=asked)
        record = replace(record, settings=dict(proposal.settings))
    else:
        value, measured = told if isinstance(told, tuple) else (told, {})
        settings = {**own, **proposal.settings}
        batch, times = settings.get("batch_size") or 1, settings.get("accumulate_steps") or 1
        assert isinstance(batch, int) and isinstance(times, int)
        unknown = {"effective_settings": {}, "worker_cost": None, "training_cost": None}
        record = a_trial(trial, value * luck, asked=asked, batch=batch * times, measured={**unknown, **measured})
        record = replace(record, settings=settings, diagnosis=replace(record.diagnosis, headroom=None), evidence={})
    record = replace(
        record, origin=proposal.origin, reason=proposal.reason, race=proposal.race, predicted=proposal.predicted
    )
    beat, rate = proposal.beat, record.measurement.samples_per_s
    if beat is not None and rate is not None and rate < SURELY_BELOW * beat.at_least:
        record = replace(record, beaten=beat, detail="ended early")
    # As it is read again: through the journal.
    return record_from_json(json.loads(json.dumps(record_to_json(record))))


class MadeUp:
    def __init__(self, told: Callable[[Settings], Told], own: Mapping[str, Scalar] = OWN, *, luck: float = 0.0) -> None:
        """`luck`: by how much launches of the same settings differ."""
        self._told, self.own, self._luck = told, own, luck

    def measure(self, proposal: Proposal, history: Sequence[TrialRecord]) -> TrialRecord:
        trial = max((one.trial for one in history), default=0) + 1
        told = self._told({**self.own, **proposal.settings})
        luck = 1 + self._luck * random.Random(trial).uniform(-1, 1)
        return launched(proposal, trial, told, own=self.own, luck=luck)

    def run(self, strategy: Strategy, history: Sequence[TrialRecord] = (), *, most: int = 80) -> list[TrialRecord]:
        """To the strategy's own end."""
        records = list(history)
        while (proposal := strategy.propose(records)) is not None:
            assert len(records) - len(history) < most, "it does not end"
            records.append(self.measure(proposal, records))
        return records


def asked_for(records: Sequence[TrialRecord]) -> list[dict[str, Scalar]]:
    return [dict(record.asked or {}) for record in records if record.race is None]
