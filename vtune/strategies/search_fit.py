"""What a search tries where the user's own configuration does not fit, and no model knows what does; and what it says
where nothing fits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from vtune.analysis.fit import excess_of, relaxed
from vtune.analysis.rungs import Memory, ruled_out
from vtune.domain.choice import Excess
from vtune.domain.effects import Scalar
from vtune.domain.record import TrialRecord
from vtune.knobs.settings import NEED_WORKERS
from vtune.strategies.gentler import FIT_TRIES, gentler
from vtune.strategies.search_seen import Seen
from vtune.strategies.space import as_asked, frees_batch
from vtune.strategies.walk_candidates import why_not

# Of the trials where none fits, so many are told.
MOST_TOLD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Gentler:
    # The least change that has not been tried; None where there is none, or so many did not fit either.
    settings: Mapping[str, Scalar] | None = None
    tried: int = 0
    # Why the first that was not tried could not be.
    why_not: str | None = None

    @property
    def text(self) -> str:
        if self.tried:
            return "nothing gentler that was tried does"
        because = self.why_not or "there is no less of its workers or its batch that keeps the effective batch"
        return f"nothing gentler could be tried: {because}"


def gentler_settings(seen: Seen, memory: Memory) -> Gentler:
    experiment, tried, because = seen.experiment, 0, None
    for turned in gentler(seen.own, memory, experiment, turns_batch=frees_batch(experiment)):
        # What only workers could use is not asked for where there are none.
        asked = {**experiment.settings, **turned}
        wanted = as_asked(asked, seen.own, experiment) if asked.get("workers") == 0 else asked
        unfit = why_not(turned, seen.own, experiment)
        if unfit is None and seen.known.answer(wanted, _comes_to(wanted, seen.own)) is not None:
            tried += 1
            continue
        if unfit is None and seen.model is not None:
            unfit = seen.model.surely_too_big(wanted, experiment.limits)
        if unfit is None:
            return Gentler(settings=wanted if tried < FIT_TRIES else None, tried=tried)
        because = because or unfit
    return Gentler(tried=tried, why_not=because)


def _comes_to(wanted: Mapping[str, Scalar], own: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    full = {**own, **wanted}
    return {name: v for name, v in full.items() if full.get("workers") != 0 or name not in NEED_WORKERS}


def nearest_relaxation(seen: Seen) -> str:
    """The option that would let the trial in that is least over its limit; what was ended needs that at least."""
    found = [(_how_far(over), one, over) for one in seen.known.records if (over := _over(one, seen))]
    if not found:
        return ""
    _, record, over = min(found, key=lambda one: (one[0], one[1].trial))
    return f"; {' '.join(map(relaxed, over))} would let trial {record.trial} in, which asks for least"


def nothing_fits(seen: Seen) -> str:
    """What is least over its limit comes first: the option that would let it in is the nearest."""
    told = sorted(seen.known.records, key=lambda one: _how_far(_over(one, seen)))
    limits, ram = seen.experiment.limits, seen.machine.ram_bytes
    said = [f"trial {one.trial}: {why}" for one in told if (why := ruled_out(one, limits, ram))]
    return f"none of {len(said)} trials gives a run that fits: " + "; ".join(said[:MOST_TOLD])


def _over(record: TrialRecord, seen: Seen) -> tuple[Excess, ...]:
    return excess_of(record, seen.experiment.limits, seen.machine.ram_bytes)


def _how_far(over: tuple[Excess, ...]) -> float:
    return max((one.needs_bytes / one.limit_bytes for one in over), default=math.inf)
