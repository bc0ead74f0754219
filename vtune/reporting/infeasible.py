"""When no trial is feasible: which limit ruled out each, by how much, and the smallest change that would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vtune.analysis.fit import excess_of, needs_text, relaxed
from vtune.domain.choice import Choice, Excess
from vtune.domain.experiment import Limits
from vtune.domain.numbers import bytes_
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus

OUT_OF_MEMORY = (TrialStatus.OUT_OF_VRAM, TrialStatus.OUT_OF_RAM, TrialStatus.OUT_OF_SHM, TrialStatus.REFUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuledOut:
    """One trial, and the limits that it passed; none where the machine itself was too small."""

    record: TrialRecord
    over: tuple[Excess, ...]
    # It was ended at the limit: what it would have come to is more, and nobody knows how much.
    at_least: bool

    @property
    def ratio(self) -> float:
        return max((one.needs_bytes / one.limit_bytes for one in self.over), default=float("inf"))


def ruled_out(
    records: Sequence[TrialRecord], choice: Choice, limits: Limits, ram_total_bytes: int | None
) -> list[RuledOut]:
    found = []
    for record in records:
        if record.trial in choice.over:
            found.append(RuledOut(record=record, over=choice.over[record.trial], at_least=False))
        elif record.status in OUT_OF_MEMORY:
            over = excess_of(record, limits, ram_total_bytes)
            found.append(RuledOut(record=record, over=over, at_least=True))
    return found


def nearest(found: Sequence[RuledOut]) -> RuledOut | None:
    """A relaxation that is known to help goes before one that only may."""
    return min(
        (one for one in found if one.over), key=lambda one: (one.at_least, one.ratio, one.record.trial), default=None
    )


def nothing_feasible(found: Sequence[RuledOut]) -> str:
    near = nearest(found)
    if near is None:
        return "nothing feasible: no trial fits this machine"
    trial = near.record.trial
    if near.at_least:
        return f"nothing feasible: no trial fits the limits; trial {trial} is nearest: it took {_beyond(near)}"
    options = " ".join(relaxed(excess) for excess in near.over)
    return f"nothing feasible: no trial fits the limits; trial {trial} is nearest: {options} lets it in"


def why_ruled_out(one: RuledOut) -> str:
    trial, status = one.record.trial, one.record.status
    if not one.at_least:
        return f"trial {trial}: {'; '.join(needs_text(excess) for excess in one.over)}"
    words = f"{status.value.replace('_', ' ')}: {one.record.detail or 'no detail is known'}"
    if not one.over:
        return f"trial {trial}, {words}"
    told = [f"{bytes_(excess.needs_bytes)} of {excess.memory} in use" in words for excess in one.over]
    if all(told) and words.endswith(f"over the limit of {bytes_(one.over[0].limit_bytes)}"):
        return f"trial {trial}, {words} by {one.ratio - 1:.1%}; {_least(one.over[0])}"
    return f"trial {trial}, {words}; it took {_beyond(one)}"


def _beyond(one: RuledOut) -> str:
    said = []
    for excess in one.over:
        by = excess.needs_bytes / excess.limit_bytes - 1
        said.append(
            f"{bytes_(excess.needs_bytes)} of {excess.memory} before it had ended, {by:.1%} over the limit of"
            f" {bytes_(excess.limit_bytes)}; {_least(excess)}"
        )
    return "; ".join(said)


def _least(excess: Excess) -> str:
    return f"how much more it needs is not known, and {relaxed(excess)} is the least that may let it in"
