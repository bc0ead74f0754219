"""Where a walk along a plan stands, as it is put together from a journal: for one look at it, and for no longer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.machine import Machine
from vtune.domain.phases import AskedPhases, OptionOutcome, Phase, PhaseOutcome, PhaseRung, Walk
from vtune.domain.prediction import Prediction
from vtune.domain.record import Cache, TrialRecord
from vtune.domain.trial import Proposal
from vtune.knobs.settings import NEED_WORKERS
from vtune.strategies.confirm import MOST_LAUNCHES
from vtune.strategies.gentler import FIT_TRIES
from vtune.strategies.walk_candidates import SIZES, Candidate, against, candidates, never_tried

# Of a phase whose rungs the model names: its two likeliest values, and while they win others, up to this.
BY_MODEL_TRIES, MOST_TRIES = 2, 4


@dataclass(frozen=True, slots=True)
class Course:
    asked: AskedPhases
    experiment: Experiment
    machine: Machine

    @property
    def phases(self) -> tuple[Phase, ...]:
        return self.asked.phases


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A question to the journal: a trial of it, or one that has yet to be run."""

    settings: Mapping[str, Scalar]
    # What they come to in this training, as far as it is known.
    effective: Mapping[str, Scalar] | None
    reason: str
    origin: str
    predicted: Prediction | None = None
    steps: tuple[int, int] | None = None
    # Once more, because the launch that is known read its data otherwise than this trial, and how that was.
    like: tuple[Cache, int] | None = None
    # Once more for longer, because the rate of this trial would not last.
    lasting_after: int | None = None
    # What failed by itself in an earlier call is asked again.
    mended: bool = False
    # Of a phase's step: what it changes against what had won before it.
    turned: Mapping[str, Scalar] | None = None

    def proposal(self) -> Proposal:
        return Proposal(
            settings=self.settings,
            reason=self.reason,
            origin=self.origin,
            predicted=self.predicted,
            steps=self.steps,
        )


@dataclass(slots=True, kw_only=True)
class Underway:
    """A phase that has been begun."""

    phase: Phase
    rungs: list[PhaseRung] = field(default_factory=list)
    # Whose turn has not come.
    pending: list[Candidate] = field(default_factory=list)
    tries_left: int = 0
    kept: dict[str, Scalar] = field(default_factory=dict)
    why: str = ""
    done: bool = False


@dataclass(slots=True, kw_only=True)
class Path:
    course: Course
    stage: Literal["baseline", "phases", "options", "confirm", "done"] = "baseline"
    baseline: TrialRecord | None = None
    # What the user's configuration runs with.
    own: dict[str, Scalar] = field(default_factory=dict)
    # What has won so far, and the trial that stands for it.
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    best: TrialRecord | None = None
    begun: list[Underway] = field(default_factory=list)
    options: list[OptionOutcome] = field(default_factory=list)
    trials: list[int] = field(default_factory=list)
    # All that these settings come to, for which a trial was judged.
    judged: set[frozenset[tuple[str, Scalar]]] = field(default_factory=set)
    stopped: str | None = None
    # The step that the proposal is for, of the phase that was begun last.
    trying: PhaseRung | None = None

    @property
    def now(self) -> dict[str, Scalar]:
        """What the winner runs with."""
        seen = self.best.settings if self.best is not None else {}
        return {**self.own, **{name: v for name, v in seen.items() if v is not None}, **self.settings}

    def asking(self, turned: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """What has won with this on top; what only workers could use goes with them."""
        wanted = {**self.settings, **turned}
        if turned.get("workers", self.now.get("workers")) != 0:
            return wanted
        return {name: value for name, value in wanted.items() if name not in NEED_WORKERS}

    def comes_to(self, wanted: Mapping[str, Scalar]) -> frozenset[tuple[str, Scalar]]:
        """Asked for or not, what a training with these settings runs with."""
        return frozenset({**self.own, **wanted}.items())

    def note(self, record: TrialRecord) -> None:
        if record.trial not in self.trials:
            self.trials.append(record.trial)

    def walk(self, proposal: Proposal | None, race_left: tuple[int, int] | None = None) -> Walk:
        least, most = self._left(proposal) if race_left is None else race_left
        return Walk(
            stage=self.stage,
            proposal=proposal,
            baseline=self.baseline,
            settings=dict(self.settings),
            best=self.best if self.stopped is None else None,
            phases=self._outcomes(),
            options=tuple(self.options),
            trials=tuple(self.trials),
            left=(least, most),
            left_to_fit=FIT_TRIES if self.baseline is None and proposal is not None else 0,
            left_again=self._left_again(proposal),
            stopped=self.stopped,
        )

    def _outcomes(self) -> tuple[PhaseOutcome, ...]:
        ahead = self._ahead() if self.stopped is None else []
        return tuple(self._outcome(one) for one in [*self.begun, *ahead])

    def _outcome(self, one: Underway) -> PhaseOutcome:
        now = self.now
        trying = [self.trying] if self.trying is not None and one is self.begun[-1] else []
        opened = [
            PhaseRung(turned=turned, settings=self.asking(turned), state="open")
            for each in one.pending
            if not each.below and each.why_not is None and (turned := against(each, now))
        ]
        return PhaseOutcome(
            phase=one.phase, rungs=(*one.rungs, *trying, *opened), kept=dict(one.kept), why=one.why, done=one.done
        )

    def _ahead(self) -> list[Underway]:
        """Phases whose turn has not come, as they look from here."""
        if self.stage not in ("baseline", "phases"):
            return []
        begun = {one.phase.number for one in self.begun}
        return [
            Underway(
                phase=phase,
                pending=self.candidates(phase),
                tries_left=MOST_TRIES if phase.by_model and self._never(phase, phase.knob) is None else 0,
            )
            for phase in self.course.phases
            if phase.number not in begun
        ]

    def candidates(self, phase: Phase) -> list[Candidate]:
        course = self.course
        return candidates(phase, own=self.own, now=self.now, experiment=course.experiment, extend=course.asked.extend)

    def _left(self, proposal: Proposal | None) -> tuple[int, int]:
        """At least the one that is proposed: each next one hangs on what it shows."""
        if proposal is None:
            return 0, 0
        # Among the options it is counted with them.
        most = 0 if self.stage == "options" else 1
        most += sum(self._most(one) for one in [*self.begun, *self._ahead()])
        asked = self.course.asked
        if asked.options:
            most += max(0, len(asked.plan.options) - len(self.options))
        if asked.confirm:
            most += MOST_LAUNCHES
        return 1, most

    def _left_again(self, proposal: Proposal | None) -> int:
        """Each step of a phase may be one that read its data otherwise than what it is compared with."""
        if proposal is None or self.stage not in ("baseline", "phases"):
            return 0
        steps = sum(self._most(one) for one in [*self.begun, *self._ahead()] if one.phase.number)
        # The baseline is launched twice where it lived on its queues.
        return steps + (self.baseline is None or self.trying is not None)

    def _most(self, one: Underway) -> int:
        if one.done:
            return 0
        open_ = [
            each
            for each in one.pending
            if each.why_not is None or each.unknown or (each.idle and self._workers_may_come())
        ]
        batch = any("batch_size" in each.turned for each in open_)
        batch = batch or bool(one.tries_left and one.phase.knob == "batch_size")
        # Accumulation in place of a batch that does not fit, after which nothing larger is tried.
        instead = one.phase.accumulate_instead and batch and self._never(one.phase, *SIZES) is None
        return len(open_) + instead + one.tries_left

    def _never(self, phase: Phase, *names: str) -> str | None:
        return never_tried(names, self.course.experiment, needs_allow=phase.needs_allow)

    def _workers_may_come(self) -> bool:
        return any(
            "workers" in rung or (one.by_model and one.knob == "workers")
            for one in self.course.phases
            for rung in ({}, *one.rungs, *one.beyond)
        )
