"""Two settings against each other, from all launches of each: faster, slower, or not to be told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vtune.analysis.comparable import (
    has_rate,
    measured_enough,
    metric_of,
    others_share,
    rate_of,
    same_cache,
    settings_of,
)
from vtune.analysis.compare import Rate, disagreement, launched, lost_to_others, pooled, ratio_of
from vtune.analysis.laps import raced
from vtune.analysis.race import Paired
from vtune.domain.choice import RankedBy, Ratio
from vtune.domain.record import TrialRecord

# "unknown": a side has no interval, so nothing is shown either way.
Verdict = Literal["faster", "slower", "tie", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """B over A."""

    ratio: Ratio
    verdict: Verdict
    # B had to be faster or slower than A by at least this to be told from it; None where nothing could be.
    resolvable: float | None
    ranked_by: RankedBy
    rates: tuple[Rate, Rate]
    # By the rounds of a race, where both ran in one.
    paired: Paired | None = None


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
        or (
            has_rate(one)
            and not one.measurement.fed_from_stock
            and measured_enough(one)
            and settings_of(one) == settings_of(record)
            and same_cache(one, record)
        )
    ]


def compare_sides(
    a: Sequence[TrialRecord],
    b: Sequence[TrialRecord],
    *,
    cores: tuple[float | None, float | None] = (None, None),
    races: Sequence[TrialRecord] = (),
) -> Compared:
    """Each side is all launches of its settings. `races`: the journal that both stand in, where it is one."""
    ranked_by = metric_of([*a, *b])
    rates = (_pooled(a, ranked_by, cores[0]), _pooled(b, ranked_by, cores[1]))
    legs = [record for record in races if record.race is not None]
    met = raced(legs, b[0], a[0], ranked_by, cores[0]) if legs and settings_of(a[0]) != settings_of(b[0]) else None
    if met is not None:
        return _compared(met.ratio, ranked_by, rates, met)
    quiet = [[launched(rate_of(record, ranked_by)) for record in side] for side in (a, b)]
    return _compared(ratio_of(rates[1], rates[0], widen=disagreement(quiet)), ranked_by, rates, None)


def gate(compared: Compared, most: float) -> Gate:
    """Failed: the whole interval is below 1, and the ratio itself at or below 1 - most."""
    ratio = compared.ratio
    if ratio.ci95 is None:
        return Gate(most=most, failed=False, could_be_seen=False)
    reach = math.log(ratio.ci95[1] / ratio.value)
    return Gate(
        most=most,
        failed=ratio.shown_slower and ratio.value <= 1 - most,
        could_be_seen=reach < -math.log(1 - most),
    )


def _compared(ratio: Ratio, ranked_by: RankedBy, rates: tuple[Rate, Rate], met: Paired | None) -> Compared:
    if ratio.ci95 is None:
        return Compared(ratio=ratio, verdict="unknown", resolvable=None, ranked_by=ranked_by, rates=rates, paired=met)
    reach = max(ratio.ci95[1] / ratio.value, ratio.value / ratio.ci95[0]) - 1
    verdict: Verdict = "faster" if ratio.shown_faster else "slower" if ratio.shown_slower else "tie"
    return Compared(ratio=ratio, verdict=verdict, resolvable=reach, ranked_by=ranked_by, rates=rates, paired=met)


def _pooled(side: Sequence[TrialRecord], ranked_by: RankedBy, cores: float | None) -> Rate:
    """What others may have taken is no chance that several launches average out: it is added to their pooled rate."""
    lost = sum(lost_to_others(others_share(record, cores)) for record in side) / len(side)
    return pooled([launched(rate_of(record, ranked_by)) for record in side], lost=lost)
