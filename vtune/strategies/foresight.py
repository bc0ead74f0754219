"""What is expected of settings before they are measured, from the trials that a walk knows of by then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

from vtune.analysis.compare import Z95
from vtune.analysis.model.fit import fit_model
from vtune.analysis.model.predict import Model
from vtune.analysis.race import DELTA
from vtune.analysis.rungs import LOADING, loading_most
from vtune.domain.choice import Ratio
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Limit, Limits
from vtune.domain.machine import Machine
from vtune.domain.prediction import Prediction
from vtune.domain.record import TrialRecord

# What cannot win by more than what counts as equal is not worth a launch.
WORTH_A_LAUNCH = 1 + DELTA


@dataclass(frozen=True, slots=True)
class Foresight:
    model: Model | None
    limits: Limits
    ram_total_bytes: int | None
    # What stands for the best so far, and what it was asked for.
    before: TrialRecord
    asked: Mapping[str, Scalar]

    def of(self, settings: Mapping[str, Scalar]) -> Prediction | None:
        return self.model.predict(settings) if self.model is not None else None

    def too_big(self, settings: Mapping[str, Scalar]) -> str | None:
        """What surely does not fit, in words with the numbers."""
        return self.model.surely_too_big(settings, self.limits) if self.model is not None else None

    def chance_to_fit(self, settings: Mapping[str, Scalar]) -> float:
        """Under the limits, and in what there is; what nobody can tell is taken to fit."""
        predicted = self.of(settings)
        if predicted is None:
            return 1.0
        devices = [gpu.vram_total_bytes for gpu in self.before.measurement.gpus if gpu.vram_total_bytes is not None]
        ram = _least(self.limits.ram, self.ram_total_bytes)
        vram = _least(self.limits.vram, min(devices, default=None))
        return _chance(predicted.ram_bytes, predicted.ram_ci95, ram) * _chance(
            predicted.vram_bytes, predicted.vram_ci95, vram
        )

    def fastest(self, candidates: Sequence[Mapping[str, Scalar]]) -> Mapping[str, Scalar] | None:
        """Of those that fit more likely than not."""
        if self.model is None:
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
        return min(bounds, default=None)

    def gain(self, settings: Mapping[str, Scalar], *, over: Mapping[str, Scalar] | None = None) -> Ratio | None:
        """Over the best so far, where nothing else is named: by all trials together."""
        return self.model.gain(settings, self.asked if over is None else over) if self.model is not None else None


def fitted(records: Sequence[TrialRecord], machine: Machine) -> Model | None:
    return _fitted(_Same(tuple(records)), machine.cores_to_plan_for, machine.ram_bytes)


@dataclass(frozen=True, slots=True)
class _Same:
    """Records are asked for their model again and again, by every look at a walk."""

    records: tuple[TrialRecord, ...]

    def __hash__(self) -> int:
        return hash(tuple((one.trial, one.seconds) for one in self.records))


@lru_cache(maxsize=128)
def _fitted(same: _Same, cores: float, ram_total_bytes: int | None) -> Model | None:
    return fit_model(same.records, cores=cores, ram_total_bytes=ram_total_bytes)


def _least(limit: Limit | None, total_bytes: int | None) -> int | None:
    allowed = limit.resolve(total_bytes) if limit is not None else None
    return min((one for one in (allowed, total_bytes) if one is not None), default=None)


def _chance(needs: int | None, interval: tuple[int, int] | None, most: int | None) -> float:
    if needs is None or interval is None or most is None:
        return 1.0
    half = (interval[1] - needs) if most >= needs else (needs - interval[0])
    return NormalDist().cdf(Z95 * (most - needs) / max(1, half))
