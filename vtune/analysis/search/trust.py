"""Whether the model's own predictions, made before the trials, were as good as it said."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vtune.analysis.comparable import has_rate, metric_of
from vtune.analysis.compare import RUN_TO_RUN_SD, Z95
from vtune.analysis.search.foretold import BY_CHANCE, HOLDS, Foretold, Reckoning, at_most, foretold
from vtune.domain.record import TrialRecord

# The latest of them count: a model learns. Fewer say nothing of it.
LATEST, LEAST = 6, 4
# What it foretold came, typically by no more than this: what launches of the same settings differ by.
WELL = 1.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistrust:
    trials: tuple[int, ...]
    inside: int
    # By which factor the predictions were typically off; and the mean of squares of that, as a logarithm.
    off: float
    sd: float

    @property
    def text(self) -> str:
        off = f"{self.off - 1:.0%} off" if self.off < 2 else f"{self.off:.2g} times off"
        return (
            f"{self.inside} of the model's last {len(self.trials)} predictions came inside of their interval, typically"
            f" {off}: it shares its trials with Optuna from then on"
        )


def mistrust(records: Sequence[TrialRecord]) -> Mistrust | None:
    """By trials that were predicted before they ran; None while there is no reason for it. It takes what a reader of
    all predictions takes for more than bad luck, and more than launches of the same settings differ by."""
    told = _latest(records)
    latest = Reckoning(trials=told)
    held = sum(_times(one) <= Z95 for one in told)
    if len(told) < LEAST or not latest.wrong or at_most(held, len(told), HOLDS) >= BY_CHANCE:
        return None
    return Mistrust(
        trials=tuple(one.trial for one in told),
        inside=latest.rates[0],
        off=latest.off or 1.0,
        sd=_rms([math.log(one.ratio) for one in told if one.ratio]),
    )


def foretold_well(records: Sequence[TrialRecord]) -> bool:
    """All that it said of the latest trials held, and was near: it knows this training."""
    latest = Reckoning(trials=_latest(records))
    inside, of = latest.rates
    return inside == of >= LEAST and (latest.off or math.inf) <= WELL


def off_times(records: Sequence[TrialRecord]) -> float:
    """How many times what it says of itself the model was off lately, in the mean of squares; at least once."""
    told = _latest(records)
    return max(1.0, _rms([_times(one) for one in told])) if len(told) >= LEAST else 1.0


def _latest(records: Sequence[TrialRecord]) -> tuple[Foretold, ...]:
    rated = [one for one in records if has_rate(one) and not one.measurement.fed_from_stock]
    return foretold(rated, metric_of(rated)).trials[-LATEST:]


def _rms(values: Sequence[float]) -> float:
    return math.sqrt(sum(one**2 for one in values) / len(values)) if values else 0.0


def _times(one: Foretold) -> float:
    """How many standard deviations off, what two launches differ by among them."""
    predicted, (low, high) = one.predicted.samples_per_s, one.predicted.samples_per_s_ci95
    gap = math.log(one.ratio) if one.ratio else 0.0
    edge = high if gap > 0 else low
    sd = abs(math.log(max(edge, 1e-9) / predicted)) / Z95
    return abs(gap) / math.hypot(sd, RUN_TO_RUN_SD)
