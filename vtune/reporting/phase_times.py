"""How long the launches take that a plan may still ask for, from what was measured of the training so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from vtune.analysis.comparable import has_rate
from vtune.domain.experiment import Experiment, Window
from vtune.domain.phases import Phase, Walk
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.knobs.plan import needs_scout
from vtune.reporting.phase_outline import turned_by
from vtune.reporting.phase_words import LEAST_OF_A_RACE, launches_left, span_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """At the most: how many a ladder is cut short by, nobody knows before."""

    trials: int
    # Launches of the race that may follow.
    race: int
    # Besides: to make the user's own settings fit, and once more of what a trial is compared with.
    to_fit: int = 0
    again: int = 0
    # Before the first trial that needs one, to learn which loader feeds the steps.
    scouts: int = 0
    # Of one launch, at least and at most.
    each_s: tuple[float, float]
    # By the trials that ran; otherwise by nothing but the cap of a trial, and without start-ups.
    measured: bool

    @property
    def trials_s(self) -> float:
        return (self.trials + self.scouts) * self.each_s[1]

    @property
    def race_s(self) -> float:
        return self.race * self.each_s[1]

    @property
    def text(self) -> str:
        return "; ".join(self.lines)

    @property
    def lines(self) -> list[str]:
        about = "about " if self.measured else ""
        if self.measured:
            each = f"of about {span_text(*self.each_s)} each"
        else:
            each = f"of at most {span_text(self.each_s[1], self.each_s[1])} each, start-ups apart"
        parts = []
        if self.trials:
            what = "1 trial" if self.trials == 1 else f"at most {self.trials} trials"
            what += " and a scout run" if self.scouts else ""
            parts.append(f"{what} {each}: at most {about}{span_text(self.trials_s, self.trials_s)}")
        if self.besides_text:
            parts.append(f"{self.besides_text}: at most {about}{span_text(self.besides_s, self.besides_s)}")
        if self.race:
            least = min(LEAST_OF_A_RACE, self.race)
            launches = f"{least} to {self.race}" if least < self.race else f"{self.race}"
            how_long = f"at most {about}{span_text(self.race_s, self.race_s)}"
            doubt = "then, where single launches leave a doubt, " if self.trials else ""
            parts.append(f"{doubt}a race of {launches} launches: {how_long}")
        return parts or ["nothing is left to launch"]

    @property
    def besides_s(self) -> float:
        return (self.to_fit + self.again) * self.each_s[1]

    @property
    def besides_text(self) -> str:
        parts = [f"{self.to_fit} to make your own settings fit"] if self.to_fit else []
        if self.again:
            parts.append(f"{self.again} once more, where a trial reads its data otherwise or lived on its queues")
        return f"besides, at most {', and '.join(parts)}" if parts else ""

    @property
    def left_text(self) -> str:
        """For a line that is looked at while it runs."""
        left_s = self.trials_s or self.race_s
        return f"at most {span_text(left_s, left_s)} left" if self.measured and left_s else ""


def expected(
    walk: Walk,
    window: Window,
    records: Sequence[TrialRecord],
    phases: Sequence[Phase],
    *,
    confirm: bool,
    scout: bool = False,
) -> Expected:
    """`records`: those of the study; the walk says which of them are its own. `phases`: those that were asked for."""
    trials, race = launches_left(walk, confirm=confirm)
    known = Expected(
        trials=trials,
        race=race,
        to_fit=walk.left_to_fit,
        again=walk.left_again,
        scouts=1 if scout and trials else 0,
        each_s=(0.0, window.trial_time_s),
        measured=False,
    )
    own = set(walk.trials)
    paces = [pace for record in records if record.trial in own and (pace := _pace(record)) is not None]
    if not paces:
        return known
    done = {outcome.phase.number for outcome in walk.phases if outcome.done}
    few, many = _steps(window, [phase for phase in phases if phase.number not in done])
    besides_s = median(pace.besides_s for pace in paces)
    # The first is the user's own pace; a step of what has won may be shorter, or longer by its batch.
    quick, slow = (pick(paces[0].step_s, paces[-1].step_s) for pick in (min, max))
    each_s = tuple(besides_s + min(s, window.trial_time_s) for s in (few * quick, many * slow))
    return replace(known, each_s=(each_s[0], each_s[1]), measured=True)


def scout_to_come(walk: Walk, phases: Sequence[Phase], experiment: Experiment, records: Sequence[TrialRecord]) -> bool:
    """A trial that turned a knob from inside, and ran, has had its scout run."""
    if any(has_rate(record) and needs_scout(record.asked or {}, experiment) for record in records):
        return False
    done = {outcome.phase.number for outcome in walk.phases if outcome.done}
    turned = {name for phase in phases if phase.number not in done for name in turned_by(phase)}
    return needs_scout(dict.fromkeys((*experiment.settings, *turned)), experiment)


def _steps(window: Window, phases: Iterable[Phase]) -> tuple[int, int]:
    """Of a trial at least and at most; a plan's own windows yield to steps that the user fixed."""
    if window.steps == window.max_steps:
        return window.steps, window.steps
    ranges = [phase.steps or (window.steps, window.max_steps) for phase in phases] or [(window.steps, window.max_steps)]
    return min(few for few, _ in ranges), max(many for _, many in ranges)


@dataclass(frozen=True, slots=True)
class _Pace:
    """Of one trial: what it takes besides its measured steps, and a step."""

    besides_s: float
    step_s: float


def _pace(record: TrialRecord) -> _Pace | None:
    times, steps = record.measurement.step_time_s, record.measurement.steps_measured
    if record.status is not TrialStatus.COMPLETED or times is None or steps <= 0:
        return None
    return _Pace(max(0.0, record.seconds - steps * times.mean), times.mean)
