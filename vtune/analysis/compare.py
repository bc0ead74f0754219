"""Two rates against each other: the ratio and its interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from vtune.domain.choice import Ratio

# Half-width of a 95 % interval in standard errors.
Z95 = 1.96
# A factor of e^200 is as good as no bound, and still a number.
MOST = 200.0


@dataclass(frozen=True, slots=True)
class Rate:
    value: float
    interval: tuple[float, float] | None


def ratio_of(rate: Rate, to: Rate, *, widen: float = 1.0) -> Ratio:
    """Intervals of rates are factors, so they are combined as logarithms: each side of the ratio's interval takes the
    upper side of one and the lower side of the other."""
    value = rate.value / to.value
    above, below = _sides(rate), _sides(to)
    if above is None or below is None:
        return Ratio(value=value)
    up = min(MOST, widen * math.hypot(above[1], below[0]))
    down = min(MOST, widen * math.hypot(above[0], below[1]))
    return Ratio(value=value, ci95=(value * math.exp(-down), value * math.exp(up)))


def widening_for(comparisons: int) -> float:
    """The fastest of many equal settings looks fast by luck: intervals that hold for all comparisons together (Šidák)
    do not call luck a winner."""
    if comparisons <= 1:
        return 1.0
    each = 0.95 ** (1 / comparisons)
    return NormalDist().inv_cdf((1 + each) / 2) / Z95


def disagreement(repeats: Iterable[Sequence[Rate]]) -> float:
    """By which factor repeated measurements of the same settings spread wider than their intervals say; 1 if they do
    not. (Birge's ratio: as for physical constants measured by several laboratories.)"""
    chi2, freedom = 0.0, 0
    for rates in repeats:
        known = [(math.log(rate.value), sum(sides) / 2 / Z95) for rate in rates if (sides := _sides(rate)) is not None]
        known = [(x, sd) for x, sd in known if sd > 0]
        if len(known) < 2:
            continue
        weight = sum(sd**-2 for _, sd in known)
        mean = sum(x * sd**-2 for x, sd in known) / weight
        chi2 += sum(((x - mean) / sd) ** 2 for x, sd in known)
        freedom += len(known) - 1
    return max(1.0, math.sqrt(chi2 / freedom)) if freedom else 1.0


def _sides(rate: Rate) -> tuple[float, float] | None:
    """How far the interval reaches down and up from the rate, as logarithms."""
    if rate.interval is None:
        return None
    low, high = rate.interval
    if not 0 < low <= rate.value <= high:
        return None
    return math.log(rate.value / low), math.log(high / rate.value)
