"""The race of two settings before it is run: which one it is, how many launches it may take, and whether it is worth
any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vtune.analysis.comparable import has_rate, settings_of
from vtune.analysis.race import DELTA, LEAST_ROUNDS, ROUNDS, Standing
from vtune.analysis.two_sides import BOverA, beyond_doubt, launches_like
from vtune.domain.record import TrialRecord
from vtune.errors import UsageError
from vtune.strategies.race import Race
from vtune.strategies.turned import turned


@dataclass(frozen=True, slots=True, kw_only=True)
class RacePlan:
    race: Race
    standing: Standing
    # What the journal has of it.
    legs: tuple[TrialRecord, ...]
    # What was launched before tells them apart beyond doubt: a race would add nothing.
    known: BOverA | None
    # A new race beside one of the same settings, or in spite of what is known.
    again: bool
    least_launches: int
    # The most that it can take, with the rounds that replace others.
    launches: int
    launch_s: float


def plan_race(
    records: Sequence[TrialRecord],
    a: TrialRecord,
    b: TrialRecord,
    *,
    rounds: int = ROUNDS,
    delta: float = DELTA,
    cores: float | None = None,
    again: bool = False,
    refusal: UsageError | None = None,
    beside: Sequence[TrialRecord] = (),
) -> RacePlan:
    """Of the settings of two of the `records`, A's as the baseline, and of those `beside` B. `again`: a race of its
    own, whatever is known. `refusal`: why what the two ran cannot be launched again; it only counts where something
    would be launched."""
    for record in (a, b, *beside):
        if not has_rate(record):
            raise UsageError(
                f"trial {record.trial} has no rate that a run could have", hint="race trials that completed"
            )
    if settings_of(a) == settings_of(b):
        raise refusal or UsageError(
            f"trials {a.trial} and {b.trial} have the same settings: there is nothing to race",
            hint="without --race their launches are compared as they are",
        )
    asked = turned(a), turned(b)
    race = Race(
        [asked[1], *map(turned, beside)],
        asked[0],
        rounds=rounds,
        delta=delta,
        cores=cores,
        expected=(a.settings, b.settings, *(one.settings for one in beside)),
    )
    if len(race.field) < 2:
        raise refusal or UsageError(
            f"trials {a.trial} and {b.trial} turned the same and ran with different settings: the training itself has"
            " changed between them, and a race launches it as it is now",
            hint="probe both anew with one command and --set, or compare them without --race",
        )
    race, begun = _which(race, records, again=again)
    legs, standing, rules = race.legs(records), race.standing(records), race.rules(records)
    known = None
    if not begun and not again and not beside:
        known = beyond_doubt(_launches(a, records), _launches(b, records), cores=(cores, cores))
    # Of a round that was stopped in its middle.
    there = len({leg.race.contestant for leg in legs if leg.race and leg.race.round == standing.rounds + 1})
    idle = standing.decided or known is not None
    if refusal is not None and not idle:
        raise refusal
    return RacePlan(
        race=race,
        standing=standing,
        legs=tuple(legs),
        known=known,
        again=again,
        least_launches=0 if idle else len(race.field) * max(LEAST_ROUNDS - standing.rounds, 1) - there,
        launches=0 if idle else len(race.field) * max(rules.most_rounds - standing.rounds, 1) - there,
        launch_s=(a.seconds + b.seconds) / 2,
    )


def _which(race: Race, records: Sequence[TrialRecord], *, again: bool) -> tuple[Race, bool]:
    """The latest race of these settings, or one of its own; and whether the journal knows it, also by launches that
    were interrupted: all that they say is that it was begun. One whose launches ran with other settings is none."""
    known = {record.race.id for record in records if record.race is not None}
    free = 0
    while replace(race, seed=free).id in known:
        free += 1
    latest = replace(race, seed=max(0, free - 1))
    begun = not again and free > 0 and latest.stray(records) is None
    return latest if begun else replace(race, seed=free), begun


def _launches(record: TrialRecord, records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """The trial that was named first."""
    return [record, *(one for one in launches_like(record, records) if one.trial != record.trial)]
