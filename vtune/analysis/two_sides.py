"""Two settings against each other, from all launches of each: faster, slower, or not to be told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vtune.analysis.comparable import (
    full_run,
    has_rate,
    launched_rate,
    lost_of,
    measured_enough,
    metric_of,
    rate_of,
    same_cache,
    settings_of,
)
from vtune.analysis.compare import Z95, Rate, disagreement, launched, pooled_rate, ratio_of
from vtune.analysis.laps import Met, met_in_race
from vtune.analysis.race import Paired, worth_racing
from vtune.domain.choice import RankedBy, Ratio
from vtune.domain.record import TrialRecord

# "unknown": a side has no interval, so nothing is shown either way.
Verdict = Literal["faster", "slower", "tie", "unknown"]
Cores = tuple[float | None, float | None]

# An interval of 95 % leaves 1 out for one pair of equals in twenty: too many, where nobody counts how often equals are
# compared. Launches are told apart by one of 99 %; a race has its own account.
Z99 = 2.576


@dataclass(frozen=True, slots=True, kw_only=True)
class BOverA:
    ratio: Ratio
    # The same with the interval that decides, which is wider where launches are compared.
    judged: Ratio
    verdict: Verdict
    # B had to be faster or slower than A by at least this to be called so; None where nothing could be.
    resolvable: float | None
    ranked_by: RankedBy
    rates: tuple[Rate, Rate]
    # The race by whose rounds it is, where both ran in one, and of it the rates.
    met: Met | None = None

    @property
    def paired(self) -> Paired | None:
        return self.met.paired if self.met is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Whether B may pass that must not be slower than A by `most` or more."""

    most: float
    failed: bool
    # Whether a slow-down of `most` would have been shown, had there been one.
    could_be_seen: bool


def launches_like(record: TrialRecord, records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """All launches of the same settings that may stand for this one, itself among them."""
    return [
        one
        for one in records
        if one.trial == record.trial
        or (_may_stand(one) and settings_of(one) == settings_of(record) and same_cache(one, record))
    ]


def compare_sides(
    a: Sequence[TrialRecord],
    b: Sequence[TrialRecord],
    *,
    cores: Cores = (None, None),
    races: Sequence[TrialRecord] = (),
    race: str | None = None,
    delta: float | None = None,
) -> BOverA:
    """Each side is all launches of its settings. `races`: the journal that both stand in, where it is one; `race`: the
    one of its races that is asked for; `delta`: what at most may count as equal in it, as a logarithm."""
    legs = [record for record in races if record.race is not None]
    if legs and settings_of(a[0]) != settings_of(b[0]):
        met = met_in_race(legs, b[0], a[0], None, cores[0], race=race, delta=delta)
        if met is not None:
            return _by_race(met, _rates(met.legs[1], met.legs[0], met.ranked_by, cores))
    ranked_by = metric_of([*a, *b])
    return _by_launches(_rates(a, b, ranked_by, cores), ranked_by, _spread(a, b, ranked_by, cores))


def beyond_doubt(a: Sequence[TrialRecord], b: Sequence[TrialRecord], *, cores: Cores = (None, None)) -> BOverA | None:
    """What launches tell so clearly that a race would add nothing; the first of each side is the one that was named."""
    if not (_may_stand(a[0]) and _may_stand(b[0]) and same_cache(a[0], b[0])):
        return None
    found = compare_sides(a, b, cores=cores)
    # Neither side is the one that stays unless it is beaten: whichever is faster has to be so beyond doubt.
    slower = 0 if found.rates[0].value < found.rates[1].value else 1
    near = worth_racing(found.rates, baseline=slower, spread=_spread(a, b, found.ranked_by, cores))
    return None if near else found


def gate(compared: BOverA, most: float) -> Gate:
    """Failed: B is called slower, and the ratio itself is at or below 1 - most."""
    judged = compared.judged
    if judged.ci95 is None:
        return Gate(most=most, failed=False, could_be_seen=False)
    return Gate(
        most=most,
        failed=compared.verdict == "slower" and judged.value <= 1 - most,
        could_be_seen=judged.ci95[1] / judged.value * (1 - most) < 1,
    )


def _by_race(met: Met, rates: tuple[Rate, Rate]) -> BOverA:
    ratio = met.paired.ratio
    reach = max(_reach(ratio) or 0.0, math.expm1(met.paired.delta))
    return BOverA(
        ratio=ratio,
        judged=ratio,
        verdict=met.paired.called,
        resolvable=reach,
        ranked_by=met.ranked_by,
        rates=rates,
        met=met,
    )


def _by_launches(rates: tuple[Rate, Rate], ranked_by: RankedBy, spread: float) -> BOverA:
    ratio = ratio_of(rates[1], rates[0], widen=spread)
    judged = ratio_of(rates[1], rates[0], widen=spread * Z99 / Z95)
    verdict: Verdict = "faster" if judged.shown_faster else "slower" if judged.shown_slower else "tie"
    if ratio.ci95 is None:
        verdict = "unknown"
    return BOverA(
        ratio=ratio, judged=judged, verdict=verdict, resolvable=_reach(judged), ranked_by=ranked_by, rates=rates
    )


def _reach(ratio: Ratio) -> float | None:
    return None if ratio.ci95 is None else max(ratio.ci95[1] / ratio.value, ratio.value / ratio.ci95[0]) - 1


def _may_stand(record: TrialRecord) -> bool:
    if record.beaten is not None:
        return False  # ended because it looked slow: a pick of the unlucky ones
    if full_run(record):
        return False
    return has_rate(record) and not record.measurement.fed_from_stock and measured_enough(record)


def _spread(a: Sequence[TrialRecord], b: Sequence[TrialRecord], ranked_by: RankedBy, cores: Cores) -> float:
    """Launches that disagree by no more than others may have taken from them do not disagree."""
    sides = zip((a, b), cores, strict=True)
    return disagreement([launched_rate(record, ranked_by, own) for record in side] for side, own in sides)


def _rates(a: Sequence[TrialRecord], b: Sequence[TrialRecord], ranked_by: RankedBy, cores: Cores) -> tuple[Rate, Rate]:
    return _side_rate(a, ranked_by, cores[0]), _side_rate(b, ranked_by, cores[1])


def _side_rate(side: Sequence[TrialRecord], ranked_by: RankedBy, cores: float | None) -> Rate:
    launches = [launched(rate_of(record, ranked_by)) for record in side]
    return pooled_rate(launches, [lost_of(record, cores) for record in side])
