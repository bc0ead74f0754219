"""What of many launches a model is made from: its cost goes with the cube of the settings that it rests on.

Launches of the same settings are one observation, the surer the more there are. Beyond some two hundred settings the
most telling ones stay: the user's own, the fastest, the latest, and of the others those that are farthest from all that
stay. What goes lies near to something that stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from vtune.analysis.model.points import points_of, spread_out
from vtune.analysis.model.rows import Row
from vtune.analysis.model.setup import Regime, Setup
from vtune.domain.record import TrialRecord

Told = tuple[TrialRecord, Setup]
MOST_SETTINGS = 200
# A search goes on around what is fast, and has just begun to look at what is new.
FASTEST, LATEST = 50, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Sure:
    """A logarithm and its standard deviation."""

    value: float
    sd: float


def by_setup(told: Iterable[Told]) -> dict[Setup, list[TrialRecord]]:
    groups: dict[Setup, list[TrialRecord]] = {}
    for record, setup in told:
        groups.setdefault(setup, []).append(record)
    return groups


def telling(
    groups: Mapping[Setup, Sequence[TrialRecord]], own: Setup | None, *, most: int = MOST_SETTINGS
) -> dict[Setup, list[TrialRecord]]:
    """In their order; the same groups give the same answer."""
    setups = list(groups)
    if len(setups) <= most:
        return {setup: list(groups[setup]) for setup in setups}
    by_rate = sorted(range(len(setups)), key=lambda at: -_fastest(groups[setups[at]]))
    by_age = sorted(range(len(setups)), key=lambda at: -groups[setups[at]][-1].trial)
    first = [setups.index(own)] if own is not None and own in groups else []
    kept = dict.fromkeys([*first, *by_rate[:FASTEST], *by_age[:LATEST]])
    regimes: tuple[Regime, ...] = tuple(dict.fromkeys(setup.regime for setup in setups))
    found = spread_out(points_of(setups, regimes), list(kept), most)
    return {setups[at]: list(groups[setups[at]]) for at in sorted(found)}


def together(known: Sequence[Sure]) -> Sure:
    """Each by how sure it is."""
    weights = [one.sd**-2 for one in known]
    total = sum(weights)
    value = sum(weight * one.value for weight, one in zip(weights, known, strict=True)) / total
    return Sure(value=value, sd=total**-0.5)


def merged(rows: Sequence[Row]) -> Row:
    """Of several launches of the same settings."""
    if len(rows) == 1:
        return rows[0]

    def cost(name: str) -> Sure:
        return together(
            [Sure(value=math.log(getattr(row, f"{name}_s")), sd=getattr(row, f"{name}_sd")) for row in rows]
        )

    def mean(name: str) -> float:
        return fmean(getattr(row, name) for row in rows)

    cpu, wait, own = cost("cpu"), cost("wait"), cost("own")
    cv = together([Sure(value=math.log(row.cv), sd=row.cv_sd) for row in rows])
    return replace(
        rows[0],
        cpu_s=math.exp(cpu.value),
        cpu_sd=cpu.sd,
        wait_s=math.exp(wait.value),
        wait_sd=wait.sd,
        own_s=math.exp(own.value),
        own_sd=own.sd,
        own_cpu_s=mean("own_cpu_s"),
        cv=math.exp(cv.value),
        cv_sd=cv.sd,
        dispatch_s=mean("dispatch_s"),
        delivery_s=mean("delivery_s"),
        busy=mean("busy"),
        computing=mean("computing"),
        delivering=min(row.delivering for row in rows),
    )


def _fastest(launches: Sequence[TrialRecord]) -> float:
    return max(record.measurement.samples_per_s or 0.0 for record in launches)
