"""Which trials are worth running where memory is needed elsewhere: each the fastest of all that take no more of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from vtune.analysis.comparable import by_settings, memory_steps
from vtune.analysis.race import DELTA
from vtune.domain.choice import Choice
from vtune.domain.record import TrialRecord
from vtune.domain.search import Front

# What may be run with: under the limits, and comparable with the others.
STANDING = ("tie", "slower", "baseline", "repeated")

# A trial, its rate and what it needs.
Candidate = tuple[TrialRecord, float, int]


def fronts(records: Sequence[TrialRecord], choice: Choice) -> tuple[Front, ...]:
    """Of the memories that are known. Where one trial beats all others in both there is nothing to weigh, and none."""
    found = (front(records, choice, "RAM"), front(records, choice, "VRAM"))
    return tuple(one for one in found if len(one.trials) > 1)


def front(records: Sequence[TrialRecord], choice: Choice, memory: Literal["RAM", "VRAM"]) -> Front:
    """More memory has to bring more than what counts as equal."""
    standing = {lost.trial for lost in choice.lost if lost.reason in STANDING}
    standing |= {choice.best.trial} if choice.best is not None else set()
    candidates = list[Candidate]()
    for group in by_settings([record for record in records if record.trial in standing]).values():
        rates = {record.trial: getattr(record.measurement, choice.ranked_by or "samples_per_s") for record in group}
        needs = max((need for record in group if (need := _needs(record, memory)) is not None), default=None)
        rated = sorted((one for one in group if rates[one.trial]), key=lambda one: rates[one.trial])
        if needs is None or not rated:
            continue
        # Of several launches the middle one is their rate; what is chosen keeps its number.
        middle = rated[(len(rated) - 1) // 2]
        candidates.append((next((one for one in rated if one == choice.best), middle), rates[middle.trial], needs))
    ordered = sorted(_but_equals(candidates, choice), key=lambda one: (one[2], one[0].trial))
    kept, fastest = dict[int, int](), 0.0
    while ordered:
        near = [one for one in ordered if one[2] <= ordered[0][2] * (1 + DELTA)]
        record, rate, needs = max(near, key=lambda one: one[1])
        if rate > fastest * (1 + DELTA):
            kept[record.trial], fastest = needs, rate
        ordered = ordered[len(near) :]
    return Front(memory=memory, trials=tuple(kept), needs_bytes=kept)


def _but_equals(candidates: Sequence[Candidate], choice: Choice) -> list[Candidate]:
    """Without what counts as equal to the chosen one in both: it was chosen among them for what else it asks."""
    best = next((one for one in candidates if one[0] == choice.best), None)
    if best is None:
        return list(candidates)
    return [
        one
        for one in candidates
        if one is best
        or not (memory_steps(one[2]) == memory_steps(best[2]) or _equal(one[2], best[2]))
        or not _equal(one[1], best[1])
    ]


def _equal(a: float, b: float) -> bool:
    return max(a, b) <= min(a, b) * (1 + DELTA)


def _needs(record: TrialRecord, memory: Literal["RAM", "VRAM"]) -> int | None:
    """As limits see it: what a run would grow to, and a validation's peak."""
    measured = record.measurement
    seen = (
        (measured.ram_peak_bytes, measured.ram_projected_bytes)
        if memory == "RAM"
        else (measured.vram_peak_bytes, measured.vram_validation_peak_bytes)
    )
    return None if seen[0] is None else max(one for one in seen if one is not None)
