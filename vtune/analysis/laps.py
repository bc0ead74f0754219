"""Races as records tell them: which launch stood in which round, and what the rounds say of two settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vtune.analysis.comparable import contradicting, has_rate, lost_of, metric_of, rate_of, settings_of
from vtune.analysis.race import DELTA, Lap, Paired, Round, Rules, judge_race, paired
from vtune.domain.choice import RankedBy
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus


def legs_of(records: Sequence[TrialRecord], race: str) -> list[TrialRecord]:
    """Interrupted launches say nothing, and those on a busy machine decide nothing: they are run again."""
    return [
        record
        for record in records
        if record.race is not None
        and record.race.id == race
        and record.status is not TrialStatus.INTERRUPTED
        and not record.on_busy_machine
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
        lost=lost_of(record, cores),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """Two settings in a race that paired them."""

    race: str
    ranked_by: RankedBy
    paired: Paired
    # Its launches of the one and of the other.
    legs: tuple[tuple[TrialRecord, ...], tuple[TrialRecord, ...]]


def met_in_race(
    records: Sequence[TrialRecord],
    one: TrialRecord,
    other: TrialRecord,
    ranked_by: RankedBy | None,
    cores: float | None,
    *,
    race: str | None = None,
    delta: float | None = None,
) -> Met | None:
    """`one`'s settings over `other`'s, by the race that is asked for, else by the latest that was decided, else by the
    one that paired them most often; None where none did so twice. `ranked_by`: None takes what all launches of the race
    have. `delta`: what at most may count as equal."""
    best: Met | None = None
    rank: tuple[bool, bool, int] | None = None
    for name in races_in(records):
        legs = legs_of(records, name)
        places = [_place(legs, record) for record in (one, other)]
        if places[0] is None or places[1] is None or places[0] == places[1]:
            continue
        measure = ranked_by or metric_of([leg for leg in legs if has_rate(leg)])
        rules, rounds = rules_of(legs, delta=delta), rounds_of(legs, cores, measure)
        found = paired(rounds, places[0], places[1], rules)
        if found is None:
            continue
        standing = judge_race(rounds, rules)
        failed = any(standing.out.get(place) == "failed" for place in places if place is not None)
        decided = standing.decided and not failed
        # Of two that were decided the later one: whoever raced again wanted to know anew.
        at = name == race, decided, 0 if decided else found.pairs
        if rank is None or at >= rank:
            sides = _of(legs, places[0]), _of(legs, places[1])
            best, rank = Met(race=name, ranked_by=measure, paired=found, legs=sides), at
    return best


def races_in(records: Sequence[TrialRecord]) -> list[str]:
    return list(dict.fromkeys(record.race.id for record in records if record.race is not None))


def launched_otherwise(
    records: Sequence[TrialRecord], race: str, one: TrialRecord, other: TrialRecord
) -> list[tuple[TrialRecord, list[TrialRecord]]]:
    """Of a race that turned what these two turned: each of them that it launched with other settings all the same, and
    those launches. So it is where the training was changed between a trial and the race."""
    legs = legs_of(records, race)
    places = [_asked_place(legs, record) for record in (one, other)]
    if None in places or places[0] == places[1]:
        return []
    found = []
    for record, place in zip((one, other), places, strict=True):
        others = [leg for leg in _of(legs, place) if contradicting(leg.settings, record.settings)]
        found += [(record, others)] if others else []
    return found


def rules_of(legs: Sequence[TrialRecord], *, rounds: int = 0, delta: float | None = None) -> Rules:
    """Of one race, as it was planned and as it is asked for now: it is only ever gone on with for more rounds, and
    judged by the narrower zone. An interval holds for all looks that were planned, also where fewer are asked for."""
    plans = [leg.race for leg in legs if leg.race is not None]
    zones = [DELTA if plan.delta is None else plan.delta for plan in plans]
    return Rules(
        contestants=plans[0].contestants,
        rounds=max(rounds, *(plan.rounds for plan in plans)),
        delta=min(zones) if delta is None else min(delta, *zones),
    )


def _of(legs: Sequence[TrialRecord], place: int | None) -> tuple[TrialRecord, ...]:
    return tuple(leg for leg in legs if leg.race is not None and leg.race.contestant == place and has_rate(leg))


def _place(legs: Sequence[TrialRecord], record: TrialRecord) -> int | None:
    """The contestant that ran with these settings."""
    wanted = settings_of(record)
    return next((leg.race.contestant for leg in legs if leg.race is not None and settings_of(leg) == wanted), None)


def _asked_place(legs: Sequence[TrialRecord], record: TrialRecord) -> int | None:
    """The contestant that was asked for what this one was."""
    asked = record.asked
    return next(
        (leg.race.contestant for leg in legs if leg.race is not None and asked is not None and leg.asked == asked), None
    )
