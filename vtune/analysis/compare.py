"""Two rates against each other: the ratio and its interval. One launch tells less of its settings than its own window
says, so each interval is first made to hold what another launch would come to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from vtune.domain.choice import Ratio

# Half-width of a 95 % interval in standard errors.
Z95 = 1.96
# Two launches of the same thing differ by about this much on a quiet machine, whatever one window says.
RUN_TO_RUN_SD = 0.015
# What a launch may have lost to others, by the share of the cores that they kept busy: the rate without them may be
# higher by up to a quarter of the share. Five launches of one training, whose setting could not matter, spread by a
# standard deviation of 0.056 times the share (0.60 to 0.75) beyond their windows; by so few launches it may be as
# much as 0.13 times (95 %, chi-square, 4 degrees of freedom), and 1.96 of those are a quarter.
LOST_TO_OTHERS = 0.25
# That holds for a training that leaves cores idle. Where the machine was full, whatever others had the training may
# have wanted: alone it could be up to 1 / (1 - share) times as fast. Means over a window seldom come to all cores.
CORES_FULL = 0.9
# Of a full machine; beyond it a rate tells nothing anyhow.
MOST_SHARE = 0.95
# Of an interval's lower end: from here on, one launch each is enough. Launches of equal settings come no further
# apart, not with others on the machine either.
BEYOND_DOUBT = 1.2
# A factor of e^200 is as good as no bound, and still a number.
MOST = 200.0


@dataclass(frozen=True, slots=True)
class Rate:
    value: float
    interval: tuple[float, float] | None


def launched(rate: Rate, lost: float = 0.0) -> Rate:
    """With an interval for the settings rather than for this launch of them: never narrower than launches differ, and
    reaching up by what others may have taken, since a disturbed rate is a lower bound. Downwards they add nothing."""
    sides = _sides(rate)
    if sides is None:
        return rate
    below, above = (max(side, Z95 * RUN_TO_RUN_SD) for side in sides)
    above = math.hypot(above, lost)
    return Rate(rate.value, (rate.value * math.exp(-below), rate.value * math.exp(min(MOST, above))))


def lost_to_others(share: float, *, full: bool = False) -> float:
    """By how much the rate may be higher without them, as a logarithm."""
    share = min(1.0, max(0.0, share))
    return -math.log1p(-min(MOST_SHARE, share)) if full else LOST_TO_OTHERS * share


def pooled_rate(rates: Sequence[Rate], lost: Sequence[float] | None = None) -> Rate:
    """Several launches of the same settings as one rate, each by its interval. `lost`: what others may have taken from
    each; such a launch weighs less, and what it weighs of its loss is no chance that several average out."""
    each = [0.0] * len(rates) if lost is None else lost
    known = [
        (rate, sides, own)
        for rate, own in zip(rates, each, strict=True)
        if (sides := _sides(rate)) is not None and min(sides) > 0
    ]
    if not known:
        return Rate(math.exp(sum(math.log(rate.value) for rate in rates) / len(rates)), None)
    raw = [((below + math.hypot(above, own)) / 2) ** -2 for _, (below, above), own in known]
    weights = [weight / sum(raw) for weight in raw]
    value = math.exp(sum(w * math.log(rate.value) for w, (rate, _, _) in zip(weights, known, strict=True)))
    below, above = (
        math.hypot(*(w * sides[side] for w, (_, sides, _) in zip(weights, known, strict=True))) for side in (0, 1)
    )
    taken = sum(w * own for w, (_, _, own) in zip(weights, known, strict=True))
    return Rate(value, (value * math.exp(-below), value * math.exp(min(MOST, math.hypot(above, taken)))))


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
