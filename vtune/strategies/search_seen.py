"""What a search has to go by at one look at the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from vtune.analysis.comparable import FATAL, has_rate, launched_rate, metric_of
from vtune.analysis.feasible import ruled_out_by, still_compared
from vtune.analysis.model.predict import Model
from vtune.analysis.repeated_trial import found_in, would_repeat
from vtune.analysis.room import Room, room_of
from vtune.analysis.rungs import ruled_out
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment, Limits
from vtune.domain.machine import Machine
from vtune.domain.record import TrialRecord
from vtune.domain.search import Space
from vtune.domain.trial import TrialStatus
from vtune.strategies.foresight import fitted
from vtune.strategies.known import Known
from vtune.strategies.space import comes_to
from vtune.strategies.turned import turned

# Not only what ended it: a training that hangs before its first step may take ten minutes to say so.
SUSPICIOUS = (*FATAL, TrialStatus.NOT_OBSERVED, TrialStatus.TIMED_OUT)
# For each failure with a value, so much of its chance to run is left.
SUSPECTED = 0.5


@dataclass(frozen=True)
class Seen:
    experiment: Experiment
    machine: Machine
    known: Known
    baseline: TrialRecord
    # What the user's configuration runs with.
    own: Mapping[str, Scalar]
    space: Space
    # Trials with a rate that a run could have, and of them those that this search may launch: others teach, and neither
    # lead nor win.
    ran: Sequence[TrialRecord]
    fitting: Sequence[TrialRecord]

    @cached_property
    def model(self) -> Model | None:
        return fitted(self.known.told, self.machine)

    @cached_property
    def room(self) -> Room:
        return room_of(self.experiment.limits, self.machine.ram_bytes, self.baseline.measurement)

    @cached_property
    def tried(self) -> Mapping[frozenset[tuple[str, Scalar]], TrialRecord]:
        """By what they ran with, and by what was asked."""
        found: dict[frozenset[tuple[str, Scalar]], TrialRecord] = {}
        for record in self.known.answers:
            found.setdefault(comes_to(turned(record), self.own), record)
            if has_rate(record):
                ran = {name: value for name, value in record.settings.items() if value is not None}
                found.setdefault(comes_to(ran, self.own), record)
        return found

    @cached_property
    def untried(self) -> Sequence[Mapping[str, Scalar]]:
        """Without those whose workers would only repeat data."""
        repeated, own = found_in(self.known.told), self.own.get("workers")
        return [
            one
            for one in self.space.settings
            if comes_to(one, self.own) not in self.tried and would_repeat(repeated, one.get("workers"), own) is None
        ]

    @cached_property
    def fastest(self) -> TrialRecord | None:
        return fastest_of(self.fitting)

    def chance_to_run(self, settings: Mapping[str, Scalar]) -> float:
        """A value with which trials failed, or beyond such a one, is under suspicion until a trial has run with it."""
        return float(SUSPECTED ** sum(self._failures_with(*one) for one in settings.items()))

    def _failures_with(self, name: str, value: Scalar) -> int:
        if (name, value) not in self._suspected:
            own = self.own.get(name)
            ran = any(_reaches(one, name, value, own) for one in self.ran)
            failed = (one for one in self.known.answers if _is_suspicious(one) and name in turned(one))
            count = 0 if ran else sum(_beyond(value, turned(one)[name], own) for one in failed)
            self._suspected[name, value] = count
        return self._suspected[name, value]

    @cached_property
    def _suspected(self) -> dict[tuple[str, Scalar], int]:
        return {}


def _is_suspicious(record: TrialRecord) -> bool:
    return record.status in SUSPICIOUS and not record.filled_its_disk


def fitting_of(records: Sequence[TrialRecord], limits: Limits, ram_total_bytes: int | None) -> Sequence[TrialRecord]:
    """What ended early only where its leader is none of them."""
    compared = still_compared(records, ruled_out_by(records, limits, ram_total_bytes))
    return [one for one in records if one.trial in compared and ruled_out(one, limits, ram_total_bytes) is None]


def fastest_of(records: Sequence[TrialRecord]) -> TrialRecord | None:
    """As they were measured."""
    ranked_by = metric_of(records)
    return max(records, key=lambda one: launched_rate(one, ranked_by, None).value, default=None)


def _reaches(record: TrialRecord, name: str, value: Scalar, own: Scalar) -> bool:
    asked = turned(record)
    return name in asked and _beyond(asked[name], value, own)


def _beyond(value: Scalar, other: Scalar, own: Scalar) -> bool:
    """As far from the user's own as the other, or farther the same way."""
    numbers = [one for one in (value, other, own) if isinstance(one, int) and not isinstance(one, bool)]
    if len(numbers) < 3:
        return value == other
    one, then, start = numbers
    return start < then <= one or start > then >= one
