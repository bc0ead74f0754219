"""Why each trial that was not chosen was not, in a sentence with the numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from vtune.analysis.comparable import full_run, same_cache, settings_of
from vtune.analysis.fit import needs_text, out_of_room, room_text
from vtune.analysis.others_words import use_text
from vtune.analysis.race import DELTA
from vtune.domain.choice import Choice, Lost, LostFor
from vtune.domain.numbers import times_of
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus


def with_lost(
    choice: Choice,
    records: Sequence[TrialRecord],
    *,
    short: Collection[int],
    died: Mapping[int, TrialRecord],
    beaten: Collection[int],
) -> Choice:
    """Of `records` all but the best. `short`: trials of too few steps that look faster than the best. `died`: of trials
    that completed, the launch of the same settings that failed. `beaten`: trials that were ended early for one
    that still leads."""
    best = choice.best

    def lost(record: TrialRecord) -> Lost:
        reason, why = _why_lost(record, choice, short, died, beaten)
        return Lost(trial=record.trial, reason=reason, why=why)

    return replace(choice, lost=tuple(lost(one) for one in records if best is None or one.trial != best.trial))


def _why_lost(
    record: TrialRecord,
    choice: Choice,
    short: Collection[int],
    died: Mapping[int, TrialRecord],
    beaten: Collection[int],
) -> tuple[LostFor, str]:
    if full_run(record):
        ended = "completed" if record.status is TrialStatus.COMPLETED else record.detail or record.status.value
        return "full_run", f"{record.reason}, no trial: {ended}"
    if record.status is not TrialStatus.COMPLETED:
        return "failed", f"{record.status.value.replace('_', ' ')}: {record.detail or 'no detail is known'}"
    if record.measurement.ceiling is not None:
        return "ceiling", "it was fed from memory, to find what the training could reach: no run has such a rate"
    if (record.measurement.samples_per_s or 0) <= 0:
        return "no_rate", "no rate could be measured"
    if record.on_busy_machine and record.measurement.others is not None:
        return "busy_machine", f"{use_text(record.measurement.others, 'used')} while it ran: its rate decides nothing"
    if (there := died.get(record.trial)) is not None:
        ending = there.status.value.replace("_", " ")
        return "failed", f"trial {there.trial}, another launch of the same settings, failed: {ending}"
    if record.trial in choice.over:
        return "over_limit", "; ".join(needs_text(excess) for excess in choice.over[record.trial])
    if out_of_room(record):
        return "out_of_room", room_text(record)
    if record.beaten is not None and record.trial in beaten:
        return "beaten", record.detail or f"ended early: trial {record.beaten.trial} was surely faster"
    if record.measurement.fed_from_stock:
        return "not_lasting", "its window lived on batches that lay ready before: the rate would not last"
    best, ratio = choice.best, choice.ratios.get(record.trial)
    assert best is not None
    if settings_of(record) == settings_of(best):
        regimes = f" (its data read {record.measurement.cache}, there {best.measurement.cache}: not comparable)"
        alike = same_cache(record, best)
        return "repeated", f"the same settings as trial {best.trial}, measured again{'' if alike else regimes}"
    against = choice.baseline if ratio is not None else None
    said = "the baseline"
    if ratio is not None and against is not None:
        raced = f" by {rounds} rounds of a race" if (rounds := choice.paired_rounds.get(record.trial)) else ""
        said = times_of(ratio.value, ratio.ci95, f"trial {against.trial}{raced}")
    if not same_cache(record, best):
        return "other_cache", (
            f"{said}, but it read its data {record.measurement.cache} and trial {best.trial} {best.measurement.cache}:"
            " not comparable"
        )
    if record.trial in short:
        return "too_short", f"{said}, but it rests on {steps_text(record)}: too few for a winner"
    if (
        record.trial in choice.tie
        and best is choice.best_same
        and (over := choice.over_same.get(record.trial)) is not None
    ):
        which = "another training" if record.trial in choice.other_trainings else "rolled back"
        over_best = times_of(over.value, over.ci95, f"trial {best.trial}")
        return "tie", f"{which}, {over_best}: not shown to be faster by now"
    if record.trial in choice.tie:
        own = choice.ratios.get(best.trial)
        gentler = ", which asks less of the machine" if own and ratio and ratio.value > own.value else ""
        if ratio and ratio.shown_faster and best is choice.baseline:
            return "tie", f"{said}: not shown to be faster by more than {DELTA:.0%}"
        return "tie", f"{said}: not distinguishable from trial {best.trial}{gentler}"
    if against is None:
        return "baseline", f"trial {best.trial} is shown to be faster"
    return "slower", f"{said}; trial {best.trial} is faster"


def steps_text(record: TrialRecord) -> str:
    steps = record.measurement.steps_measured
    return f"{steps} measured {'step' if steps == 1 else 'steps'}, not shown to be steady"
