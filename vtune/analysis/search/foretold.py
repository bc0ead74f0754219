"""What was predicted of trials before they ran, against what they came to: whether the model is to be trusted here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from scipy.special import bdtr

from vtune.analysis.comparable import has_rate
from vtune.domain.choice import RankedBy
from vtune.domain.prediction import Prediction
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus

# Of intervals that hold 95 of 100: so few inside come by chance less often than this.
HOLDS, BY_CHANCE = 0.95, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold:
    """One trial. None of what was not measured: a trial that failed has no rate."""

    trial: int
    predicted: Prediction
    samples_per_s: float | None
    ram_bytes: int | None
    vram_bytes: int | None

    @property
    def inside(self) -> bool | None:
        return _inside(self.samples_per_s, self.predicted.samples_per_s_ci95)

    @property
    def ratio(self) -> float | None:
        """Measured over predicted."""
        return self.samples_per_s / self.predicted.samples_per_s if self.samples_per_s is not None else None

    @property
    def off(self) -> float | None:
        """By which factor, either way: at least 1."""
        return max(self.ratio, 1 / self.ratio) if self.ratio else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reckoning:
    trials: tuple[Foretold, ...] = ()

    @property
    def rates(self) -> tuple[int, int]:
        """Inside of their interval, and of how many."""
        return _count([one.inside for one in self.trials])

    @property
    def ram(self) -> tuple[int, int]:
        return _count([_inside(one.ram_bytes, one.predicted.ram_ci95) for one in self.trials])

    @property
    def vram(self) -> tuple[int, int]:
        return _count([_inside(one.vram_bytes, one.predicted.vram_ci95) for one in self.trials])

    @property
    def off(self) -> float | None:
        """By which factor a measured rate is typically away from what was predicted, either way."""
        factors = [one.off for one in self.trials if one.off]
        return math.exp(median(map(math.log, factors))) if factors else None

    @property
    def furthest(self) -> Foretold | None:
        return max((one for one in self.trials if one.off), key=lambda one: one.off or 0.0, default=None)

    @property
    def wrong(self) -> bool:
        """So few inside are no bad luck."""
        inside, of = self.rates
        return at_most(inside, of, HOLDS) < BY_CHANCE


def foretold(records: Sequence[TrialRecord], ranked_by: RankedBy | None) -> Reckoning:
    """Legs of a race are launches of what was measured before: predicting them is no art. What was interrupted came to
    nothing."""
    return Reckoning(
        trials=tuple(
            Foretold(
                trial=record.trial,
                predicted=record.predicted,
                samples_per_s=_rate(record, ranked_by),
                ram_bytes=record.measurement.ram_peak_bytes if has_rate(record) else None,
                vram_bytes=record.measurement.vram_peak_bytes if has_rate(record) else None,
            )
            for record in records
            if record.predicted is not None and record.predicted.samples_per_s > 0
            if record.race is None and record.status is not TrialStatus.INTERRUPTED
        )
    )


def at_most(inside: int, of: int, chance: float) -> float:
    """The chance of so many or fewer, if each is inside with that chance."""
    return float(bdtr(inside, of, chance))


def _rate(record: TrialRecord, ranked_by: RankedBy | None) -> float | None:
    value: float | None = getattr(record.measurement, ranked_by or "samples_per_s")
    return value if has_rate(record) else None


def _inside(value: float | None, interval: tuple[float, float] | None) -> bool | None:
    return None if value is None or interval is None else interval[0] <= value <= interval[1]


def _count(known: Sequence[bool | None]) -> tuple[int, int]:
    told = [one for one in known if one is not None]
    return sum(told), len(told)
