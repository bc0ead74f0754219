"""A plan of phases as data, and what came of walking along it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from vtune.domain.effects import Scalar
from vtune.domain.prediction import Prediction
from vtune.domain.record import TrialRecord
from vtune.domain.repeated import Repeats
from vtune.domain.trial import Proposal

Risk = Literal["none", "low", "medium", "high"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """A value relative to the user's own: batch × 2, half the filters."""

    factor: float


RungValue = Scalar | Times


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """What a rung has to show beyond what all have to: it completed, stays under the limits, and brings more samples a
    second than noise does. What cannot be measured here is not judged, and never failed."""

    gpu_util_percent: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    # From 1 on; `--up-to 4` ends after the fourth.
    number: int
    name: str
    # What it is about in one knob's name, for the record's origin and the JSON: the first that it turns. Where it turns
    # none, the phase's own name.
    knob: str
    # In the order in which they are climbed; each turns one knob or several on top of what won so far.
    rungs: tuple[Mapping[str, RungValue], ...] = ()
    # Past the documented end, with --extend and as long as it wins.
    beyond: tuple[Mapping[str, RungValue], ...] = ()
    # No rungs of its own: the two that the model likes best among this knob's values on this machine.
    by_model: bool = False
    # Where batch does not fit: the half of it with twice the accumulation.
    accumulate_instead: bool = False
    risk: Risk = "low"
    # What may go wrong, in one line.
    risk_words: str | None = None
    success: Success = field(default_factory=Success)
    # Only with --allow, or where the user named the knob: otherwise it is left out, and said so.
    needs_allow: bool = False
    # Measured steps of a trial, at least and at most; None: as everywhere.
    steps: tuple[int, int] | None = None
    # What belongs to it and vtune does not turn, a line each.
    by_hand: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A whole set of settings to compare against what the phases found."""

    name: str
    settings: Mapping[str, RungValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    name: str
    about: str
    phases: tuple[Phase, ...]
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPhases:
    """What is asked of a walk along a plan, beside the experiment; the journal has the rest."""

    plan: Plan
    up_to: int | None = None
    # Past a ladder's documented end, as long as it wins.
    extend: bool = False
    # The plan's own sets of settings are measured, not only predicted.
    options: bool = False
    # A race against the user's own settings, where single launches leave a doubt.
    confirm: bool = True

    @property
    def phases(self) -> tuple[Phase, ...]:
        return tuple(one for one in self.plan.phases if self.up_to is None or one.number <= self.up_to)

    def within(self, cores: float) -> AskedPhases:
        """Extended to more workers than cores, a ladder would only find out what is known of them."""
        phases = tuple(
            replace(one, beyond=tuple(rung for rung in one.beyond if not _more_workers(rung, cores)))
            for one in self.plan.phases
        )
        return replace(self, plan=replace(self.plan, phases=phases))


def _more_workers(rung: Mapping[str, RungValue], cores: float) -> bool:
    workers = rung.get("workers")
    return isinstance(workers, int) and workers > cores


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRung:
    """One step of a phase. `turned` is what it changes against what had won before it, `settings` all it asks for."""

    turned: Mapping[str, Scalar]
    settings: Mapping[str, Scalar]
    # skipped: not measured, and why; open: its turn has not come, or it is being tried; interrupted: its turn comes
    # again; undecided: measured on a busy machine, or too noisy.
    state: Literal["kept", "rejected", "undecided", "skipped", "open", "interrupted"]
    why: str = ""
    trial: int | None = None
    # Over what had won before it.
    gain: float | None = None
    predicted: Prediction | None = None
    # Criteria of the plan that this machine cannot judge, in words.
    not_judged: tuple[str, ...] = ()
    # Its loader workers read the same data; of a step that was skipped, by another trial of the study.
    repeats: Repeats | None = None


def rolled_back(rungs: Sequence[PhaseRung]) -> tuple[int, ...]:
    """Trials of steps that were measured and not kept, by none of the phases: taken back, or not decided."""
    kept = {rung.trial for rung in rungs if rung.state == "kept"}
    found = (rung.trial for rung in rungs if rung.state in ("rejected", "undecided") and rung.trial is not None)
    return tuple(trial for trial in found if trial not in kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseOutcome:
    phase: Phase
    rungs: tuple[PhaseRung, ...] = ()
    # What it added to the settings; empty where nothing better was found.
    kept: Mapping[str, Scalar] = field(default_factory=dict)
    # One sentence: what was kept and rejected, and why.
    why: str = ""
    done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionOutcome:
    option: Option
    settings: Mapping[str, Scalar]
    predicted: Prediction | None = None
    trial: int | None = None
    # Why it was not measured.
    why: str = ""
    # Its loader workers would read the same data, by another trial of the study.
    repeats: Repeats | None = None
    # Its effective batch by the settings, and the user's own, where the two differ.
    batch: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """How far along the plan a journal is. The same journal comes to the same place: nothing else is remembered."""

    stage: Literal["baseline", "phases", "options", "confirm", "done"]
    # None when there is nothing left to launch.
    proposal: Proposal | None
    baseline: TrialRecord | None
    # What has won so far: the settings asked for, and the trial that stands for them.
    settings: Mapping[str, Scalar]
    best: TrialRecord | None
    phases: tuple[PhaseOutcome, ...] = ()
    options: tuple[OptionOutcome, ...] = ()
    # Trials that this walk rests on, in the order in which it needed them; those before it began are among them.
    trials: tuple[int, ...] = ()
    # Launches still to come, with the race, at least and at most.
    left: tuple[int, int] = (0, 0)
    # Besides, at most: to make the user's own settings fit, and once more of what a step is compared with, where that
    # read its data otherwise.
    left_to_fit: int = 0
    left_again: int = 0
    # Why it cannot go on, where no baseline could be measured.
    stopped: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """What the model says that a walk, turning one knob at a time, did not see."""

    settings: Mapping[str, Scalar]
    predicted: Prediction
    # Over the best that was measured, and the least of it that the model is sure of.
    gain: float
    least_gain: float
