"""Which trials no run can be made with, whatever their rate was."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from vtune.analysis.comparable import by_settings, died_of, full_run, has_rate
from vtune.analysis.fit import excess_of, out_of_room
from vtune.domain.choice import Excess
from vtune.domain.experiment import Limits
from vtune.domain.record import TrialRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RuledOut:
    over: Mapping[int, tuple[Excess, ...]]
    # A device has no room for them, although they ran.
    cramped: frozenset[int]
    # Another launch of the same settings failed later: that launch.
    died: Mapping[int, TrialRecord]

    @property
    def trials(self) -> frozenset[int]:
        return self.cramped.union(self.over, self.died)


def ruled_out_by(records: Sequence[TrialRecord], limits: Limits, ram_total_bytes: int | None) -> RuledOut:
    measured = [record for record in records if has_rate(record)]
    return RuledOut(
        over=_over(measured, limits, ram_total_bytes),
        cramped=frozenset(record.trial for record in measured if out_of_room(record)),
        # Not the user's own: that it may fail is no reason to take it away, and theirs to know.
        died={trial: there for trial, there in died_of(records).items() if there.asked},
    )


def leaders(records: Sequence[TrialRecord], limits: Limits, ram_total_bytes: int | None) -> frozenset[int]:
    """Trials that a run can be made with: what was ended early for one of them needs no other launch."""
    return _leading(records, ruled_out_by(records, limits, ram_total_bytes).trials)


def _leading(records: Sequence[TrialRecord], lost: Collection[int]) -> frozenset[int]:
    return frozenset(
        one.trial
        for one in records
        if has_rate(one) and not full_run(one) and one.trial not in lost and one.beaten is None
    )


def still_compared(records: Sequence[TrialRecord], ruled_out: RuledOut) -> frozenset[int]:
    """The leaders, and what was ended early for one that leads no more: under other limits it may be the best there is,
    by the little that is known of it."""
    lost = ruled_out.trials
    leading = _leading(records, lost)
    return leading.union(
        one.trial
        for one in records
        if has_rate(one) and one.trial not in lost and one.beaten is not None and one.beaten.trial not in leading
    )


def _over(
    measured: Sequence[TrialRecord], limits: Limits, ram_total_bytes: int | None
) -> dict[int, tuple[Excess, ...]]:
    """What a launch of the same settings once took counts for all of them: one saw the validation, another did not."""
    found: dict[int, tuple[Excess, ...]] = {}
    for group in by_settings(measured).values():
        each = {record.trial: excess_of(record, limits, ram_total_bytes) for record in group}
        worst = max(each.values(), key=lambda one: max((e.needs_bytes / e.limit_bytes for e in one), default=0.0))
        found.update({trial: own or worst for trial, own in each.items() if own or worst})
    return found
