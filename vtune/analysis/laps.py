"""Races as records tell them: which launch stood in which round, and what the rounds say of two settings."""

from __future__ import annotations

from collections.abc import Sequence

from vtune.analysis.comparable import has_rate, metric_of, others_share, rate_of, settings_of
from vtune.analysis.race import Lap, Paired, Round, Rules, paired
from vtune.domain.choice import RankedBy
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus


def legs_of(records: Sequence[TrialRecord], race: str) -> list[TrialRecord]:
    """Interrupted launches say nothing: they are run again."""
    return [
        record
        for record in records
        if record.race is not None and record.race.id == race and record.status is not TrialStatus.INTERRUPTED
    ]


def rounds_of(legs: Sequence[TrialRecord], cores: float | None, ranked_by: RankedBy | None = None) -> list[Round]:
    """Of one race. Where a launch was repeated within its round, the later one counts."""
    ranked_by = ranked_by or metric_of([record for record in legs if has_rate(record)])
    rounds: dict[int, dict[int, Lap]] = {}
    for record in legs:
        if record.race is not None:
            rounds.setdefault(record.race.round, {})[record.race.contestant] = lap_of(record, ranked_by, cores)
    return [rounds[number] for number in sorted(rounds)]


def lap_of(record: TrialRecord, ranked_by: RankedBy, cores: float | None) -> Lap:
    return Lap(
        rate=rate_of(record, ranked_by).value if has_rate(record) else None,
        cache=record.measurement.cache,
        others_share=others_share(record, cores),
    )


def raced(
    records: Sequence[TrialRecord], one: TrialRecord, other: TrialRecord, ranked_by: RankedBy, cores: float | None
) -> Paired | None:
    """`one`'s settings over `other`'s, by the race that paired them most often; None where none did so twice."""
    best: Paired | None = None
    for race in dict.fromkeys(record.race.id for record in records if record.race is not None):
        legs = legs_of(records, race)
        places = [_place(legs, record) for record in (one, other)]
        if places[0] is None or places[1] is None or places[0] == places[1]:
            continue
        found = paired(rounds_of(legs, cores, ranked_by), places[0], places[1], _rules(legs))
        if found is not None and (best is None or found.pairs >= best.pairs):
            best = found
    return best


def _place(legs: Sequence[TrialRecord], record: TrialRecord) -> int | None:
    """The contestant that ran with these settings."""
    wanted = settings_of(record)
    return next((leg.race.contestant for leg in legs if leg.race is not None and settings_of(leg) == wanted), None)


def _rules(legs: Sequence[TrialRecord]) -> Rules:
    plans = [leg.race for leg in legs if leg.race is not None]
    return Rules(contestants=plans[0].contestants, rounds=max(plan.rounds for plan in plans))
