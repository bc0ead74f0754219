"""Which of its batches a step used, where it got several and went backward once: by the rows its model was given."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from enum import StrEnum

from vtune.analysis.roles import Roles
from vtune.domain.events import BatchDelivered, Fact

# Of the steps that are looked at closely, so many have to say the same, and none something else.
LEAST_TOLD = 3


class Uses(StrEnum):
    """Of the batches that a step got."""

    ALL = "all"
    ONE = "one"
    UNKNOWN = "unknown"


def uses_of_batches(roles: Roles, by_step: Sequence[Sequence[BatchDelivered]], facts: Sequence[Fact]) -> Uses:
    """`by_step`: the batches that each of all steps got."""
    ends = [step.ended_s for step in roles.steps]
    told = []
    for fact in facts:
        forwards = fact.data.get("forwards")
        if fact.name != "forwards" or fact.pid != roles.pid or not forwards:
            continue
        step = bisect_right(ends, float(forwards[0][2]))
        if step < len(ends) and len(by_step[step]) > 1:
            # Those after its end, of another model that learns more seldom, are not this step's.
            told.append(_told_by([one for one in forwards if one[2] <= ends[step]], by_step[step]))
    return told[0] if len(told) >= LEAST_TOLD and len(set(told)) == 1 else Uses.UNKNOWN


def _told_by(forwards: Sequence[Sequence[float]], batches: Sequence[BatchDelivered]) -> Uses:
    """Several models, or several calls of one model, may each have been given the same batch."""
    if len({model for model, _, _ in forwards}) > 1 or forwards[0][2] < batches[-1].returned_s:
        return Uses.UNKNOWN
    rows = sorted(int(number) for _, number, _ in forwards)
    given = sorted(batch.leading for batch in batches)
    if rows == [sum(given)]:
        return Uses.ALL
    loaders = {batch.loader for batch in batches}
    if len(loaders) > 1:
        return Uses.ALL if rows == given else Uses.UNKNOWN
    return Uses.ONE if len(rows) == 1 and set(rows) == set(given) else Uses.UNKNOWN
