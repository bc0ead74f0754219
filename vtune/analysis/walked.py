"""What a walk along a plan has shown, beside the choice that is made of its trials; and what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vtune.domain.choice import Choice
from vtune.domain.phases import PhaseOutcome, PhaseRung
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus, tunes

# Two launches of the same settings differ by so much; and of one launch each, an interval hides no more than that.
NO_GAIN, UNSEEN_GAIN = 1.03, 1.2


def nothing_to_gain(phases: Sequence[PhaseOutcome], choice: Choice) -> bool:
    """Of a whole walk: no step won, and none could have won without being seen."""
    rungs = list(_rungs(phases))
    tried = {rung.trial for rung in rungs if rung.trial is not None}
    ratios = [ratio for trial, ratio in choice.ratios.items() if trial in tried]
    if any(rung.state == "kept" for rung in rungs):
        return False
    if any(one.value > NO_GAIN or one.ci95 is None or one.ci95[1] > UNSEEN_GAIN for one in ratios):
        return False
    # What failed, or had no way into the training, shows nothing of what there is to gain.
    foreseen = any(rung.predicted is not None and rung.trial is None for rung in rungs)
    foreseen |= any(one.phase.by_model and one.done and not one.rungs for one in phases)
    return len(ratios) == len(tried) and bool(ratios or foreseen)


def chosen_though_rolled_back(phases: Sequence[PhaseOutcome], choice: Choice) -> PhaseRung | None:
    best = choice.best
    step = next((rung for rung in _rungs(phases) if best is not None and rung.trial == best.trial), None)
    return step if step is not None and step.state == "rejected" else None


def kept_though_not_chosen(phases: Sequence[PhaseOutcome], choice: Choice) -> list[int]:
    """The trials of steps that were kept, where the user's own settings stay."""
    if choice.best is None or choice.best != choice.baseline:
        return []
    return [rung.trial for rung in _rungs(phases) if rung.state == "kept" and rung.trial is not None]


def tuning_s(records: Sequence[TrialRecord], trials: Sequence[int], *, scout_s: float = 0.0) -> float:
    """The time of all trials that a walk rests on, also of those that another command had run before; and of its own
    that were interrupted or disturbed."""
    return scout_s + sum(record.seconds for record in records if record.trial in trials or _came_to_nothing(record))


def pays_back_after_s(spent_s: float, choice: Choice) -> float | None:
    """Of the tuned run: from then on it is ahead of the untuned one that would have begun with the tuning. None without
    a gain that was shown."""
    gain = choice.speedup
    return spent_s / (gain.value - 1) if gain is not None and gain.shown_faster and gain.value > 1 else None


def _came_to_nothing(record: TrialRecord) -> bool:
    unused = record.status is TrialStatus.INTERRUPTED or record.on_busy_machine
    return unused and tunes(record.origin)


def _rungs(phases: Sequence[PhaseOutcome]) -> Iterator[PhaseRung]:
    return (rung for outcome in phases for rung in outcome.rungs)
