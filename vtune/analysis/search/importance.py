"""Which knob mattered: by a model of the training, around what is best and over all that fits."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance

from vtune.analysis.comparable import has_rate
from vtune.analysis.search.foretold import foretold
from vtune.domain.choice import RankedBy
from vtune.domain.effects import Scalar
from vtune.domain.record import TrialRecord
from vtune.domain.search import Dimension, Importance, Space

# Of a space of tens of thousands, evenly picked: shares of a percent need no more.
MOST_SETTINGS = 2000
# A model that has seen fewer says what it was built to say.
LEAST_MEASURED = 3

Settings = Mapping[str, Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What a model knows: rates (None where it knows none), and what fits the limits."""

    rates: Callable[[Sequence[Settings]], Sequence[float | None]]
    fits: Callable[[Settings], bool]


def why_untold(records: Sequence[TrialRecord], ranked_by: RankedBy | None) -> str | None:
    """Why these trials tell nothing of which knob mattered; None where they do."""
    measured, found = sum(map(has_rate, records)), foretold(records, ranked_by)
    if not measured:
        return "no trial was measured"
    if measured < LEAST_MEASURED:
        were = "trial was" if measured == 1 else "trials were"
        return f"only {measured} {were} measured, it takes {LEAST_MEASURED}"
    inside, of = found.rates
    return f"{inside} of {of} predictions of the model came inside of their interval" if found.wrong else None


def importances(
    space: Space, *, own: Settings, best: Settings, foreseen: Foreseen, measured: Sequence[Settings]
) -> tuple[Importance, ...]:
    """`own` is what the user's configuration runs with, `best` what is asked for on top of it, `measured` what trials
    were asked for. The knob that is worth most against its worst value comes first; one of which nothing can be told is
    left out."""
    shares = _shares(space, own, foreseen)
    found = [
        Importance(
            knob=one.name,
            over_own=against[0],
            over_worst=against[1],
            share=shares.get(one.name),
            turned=len({at for ran in measured if (at := choice_of(one, ran, own)) is not None}) > 1,
        )
        for one in space.dimensions
        if (against := _around(one, space, own, best, foreseen)) is not None
    ]
    return tuple(sorted(found, key=lambda one: (-one.over_worst, -one.over_own, one.knob)))


def choice_of(dimension: Dimension, settings: Settings, own: Settings) -> int | None:
    """Which of its choices these settings come to; None where it means nothing to them, or another value was set."""
    ran = {**own, **settings}
    if dimension.needs_workers and ran.get("workers") == 0:
        return None
    # One that sets nothing leaves the knob as it is, whatever that is: the last resort.
    by_names = sorted(range(len(dimension.choices)), key=lambda at: -len(dimension.choices[at]))
    return next((at for at in by_names if all(ran.get(n) == v for n, v in dimension.choices[at].items())), None)


def _around(
    dimension: Dimension, space: Space, own: Settings, best: Settings, foreseen: Foreseen
) -> tuple[float, float] | None:
    """The best over itself with this knob as the user has it, and at its worst."""
    now = choice_of(dimension, best, own)
    if now is None:
        return None
    names = {name for one in dimension.choices for name in one}
    without = {name: value for name, value in best.items() if name not in names}
    varied = [_turned(best, one, space, own) for one in dimension.choices]
    mine, *rates = foreseen.rates([without, *varied])
    known = [rate for rate, one in zip(rates, varied, strict=True) if rate and foreseen.fits(one)]
    top = rates[now]
    return (top / mine, top / min(known)) if top and mine and len(known) > 1 else None


def _turned(best: Settings, choice: Settings, space: Space, own: Settings) -> Settings:
    """What only workers could use is not asked for where there are none."""
    asked = {**best, **choice}
    if {**own, **asked}.get("workers") != 0:
        return asked
    idle = {name for one in space.dimensions if one.needs_workers for turned in one.choices for name in turned}
    return {name: value for name, value in asked.items() if name not in idle}


def _shares(space: Space, own: Settings, foreseen: Foreseen) -> dict[str, float]:
    """How much of the differences among settings goes with each knob by itself (variance of the logarithm that its
    values' means have, over all of it); what only two knobs together do belongs to none."""
    stride = max(1, math.ceil(len(space.settings) / MOST_SETTINGS))
    fitting = [one for one in space.settings[::stride] if foreseen.fits(one)]
    rated = [
        (one, math.log(rate)) for one, rate in zip(fitting, foreseen.rates(fitting), strict=True) if rate is not None
    ]
    whole = pvariance([log for _, log in rated]) if len(rated) > 1 else 0.0
    if whole <= 0:
        return {}
    shares = {}
    for dimension in space.dimensions:
        logs = defaultdict[int, list[float]](list)
        for settings, log in rated:
            if (at := choice_of(dimension, settings, own)) is not None:
                logs[at].append(log)
        everything = [log for group in logs.values() for log in group]
        if len(logs) < 2:
            continue
        middle = fmean(everything)
        spread = sum(len(group) * (fmean(group) - middle) ** 2 for group in logs.values()) / len(everything)
        shares[dimension.name] = spread / whole
    return shares
