"""What is expected of settings before they are measured, from the trials that a walk knows of by then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vtune.analysis.model.fit import fit_model
from vtune.analysis.model.predict import Model
from vtune.analysis.race import DELTA
from vtune.analysis.repeated_trial import would_repeat
from vtune.analysis.room import room_of
from vtune.analysis.rungs import LOADING, loading_most, threads_most
from vtune.domain.choice import Ratio
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Limits
from vtune.domain.machine import Machine
from vtune.domain.prediction import Prediction
from vtune.domain.record import TrialRecord
from vtune.domain.repeated import Repeated
from vtune.knobs.mathematics import THREADS
from vtune.one_core import on_one_core

# What cannot win by more than what counts as equal is not worth a launch.
WORTH_A_LAUNCH = 1 + DELTA
# Of models that are held, the trials that they rest on, all together; and as many models whatever they rest on. One of
# 200 settings takes 3 MB, and as much again for ten thousand predictions.
MOST_HELD, LEAST_HELD = 3000, 2


@dataclass(frozen=True, slots=True)
class Foresight:
    model: Model | None
    limits: Limits
    ram_total_bytes: int | None
    # What stands for the best so far, and what it was asked for.
    before: TrialRecord
    asked: Mapping[str, Scalar]
    # Data that loader workers were seen to repeat, and the user's own number of workers.
    repeated: Repeated | None = None
    own_workers: Scalar = None

    def of(self, settings: Mapping[str, Scalar]) -> Prediction | None:
        """Nothing of what would only repeat data: its rate promises no gain."""
        if self.model is None or self.repeats(settings) is not None:
            return None
        return self.model.predict(settings)

    def repeats(self, settings: Mapping[str, Scalar]) -> Repeated | None:
        return would_repeat(self.repeated, settings.get("workers"), self.own_workers)

    def too_big(self, settings: Mapping[str, Scalar]) -> str | None:
        """What surely does not fit, in words with the numbers."""
        return self.model.surely_too_big(settings, self.limits) if self.model is not None else None

    def chance_to_fit(self, settings: Mapping[str, Scalar]) -> float:
        """Under the limits, and in what there is; what nobody can tell is taken to fit."""
        predicted = self.of(settings)
        if predicted is None:
            return 1.0
        return room_of(self.limits, self.ram_total_bytes, self.before.measurement).chance(predicted)

    def fastest(self, candidates: Sequence[Mapping[str, Scalar]]) -> Mapping[str, Scalar] | None:
        """Of those that fit more likely than not, and repeat no data."""
        candidates = [one for one in candidates if self.repeats(one) is None]
        if self.model is None or not candidates:
            return None
        found = [
            (predicted.samples_per_s, settings)
            for settings, predicted in zip(candidates, self.model.predict_all(candidates), strict=True)
            if predicted is not None and self.model.fits(settings, self.limits)
        ]
        return max(found, key=lambda one: one[0])[1] if found else None

    def most(self, settings: Mapping[str, Scalar], turned: Mapping[str, Scalar]) -> float | None:
        """The most that it could bring over the best so far; None where nobody knows. What only feeds the training wins
        no more than the training waits."""
        bounds = []
        if (gain := self.gain(settings)) is not None and gain.ci95 is not None:
            bounds.append(gain.ci95[1])
        if LOADING.issuperset(turned) and (cap := loading_most(self.before)) is not None:
            bounds.append(cap)
        if set(turned) == {THREADS.name} and (cap := threads_most(self.before)) is not None:
            bounds.append(cap)
        return min(bounds, default=None)

    def gain(self, settings: Mapping[str, Scalar], *, over: Mapping[str, Scalar] | None = None) -> Ratio | None:
        """Over the best so far, where nothing else is named: by all trials together."""
        return self.model.gain(settings, self.asked if over is None else over) if self.model is not None else None


def fitted(records: Sequence[TrialRecord], machine: Machine) -> Model | None:
    return _FITTED.of(tuple(records), machine.cores_to_plan_for, machine.ram_bytes)


class _Fitted:
    """Records are asked for their model again and again, by every look at a walk, which needs one for each of its
    trials. What is held is bounded by the trials that the models rest on: two of a long journal, all of a walk."""

    def __init__(self) -> None:
        self._held: dict[tuple[object, ...], tuple[tuple[TrialRecord, ...], Model | None]] = {}

    def of(self, records: tuple[TrialRecord, ...], cores: float, ram_total_bytes: int | None) -> Model | None:
        key = (tuple((one.trial, one.seconds) for one in records), cores, ram_total_bytes)
        known = self._held.pop(key, None)
        if known is None or known[0] != records:
            with on_one_core():
                known = records, fit_model(records, cores=cores, ram_total_bytes=ram_total_bytes)
        # The latest last.
        self._held[key] = known
        while len(self._held) > LEAST_HELD and sum(len(held) for held, _ in self._held.values()) > MOST_HELD:
            del self._held[next(iter(self._held))]
        return known[1]


_FITTED = _Fitted()
