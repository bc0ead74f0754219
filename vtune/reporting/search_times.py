"""How long the launches take that a search may still ask for, from what was measured of the training so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from vtune.analysis.comparable import has_rate
from vtune.domain.experiment import Experiment, Window
from vtune.domain.numbers import seconds
from vtune.domain.record import Measurement, TrialRecord
from vtune.domain.search import Hunt, Space
from vtune.domain.trial import TrialStatus
from vtune.knobs.plan import needs_scout
from vtune.reporting.phase_words import span_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedSearch:
    """At the most: how many trials are given back, and whether a race is needed, nobody knows before."""

    trials: int
    # Launches that confirm what won.
    confirmations: int
    least: int
    # Of one launch, at least and at most.
    each_s: tuple[float, float]
    # By the trials that ran; otherwise by nothing but the cap of a trial, and without start-ups.
    measured: bool
    # Of the launches' own seconds; None without a budget.
    budget_left_s: float | None = None
    # Which loader is the training's has to be seen first, where a knob is turned from inside.
    scouts: int = 0

    @property
    def least_s(self) -> float:
        return self._within(self.least * self.each_s[0])

    @property
    def most_s(self) -> float:
        return self._within((self.trials + self.scouts + self.confirmations) * self.each_s[1])

    @property
    def lines(self) -> list[str]:
        least_s, most_s = self.each_s
        each = f"of about {span_text(least_s, most_s)} each"
        each = each if self.measured else f"of at most {_span(most_s)} each, start-ups apart"
        parts = []
        if self.trials:
            what = "1 trial" if self.trials == 1 else f"at most {self.trials} trials"
            what += " and a scout run" if self.scouts else ""
            parts.append(f"{what} {each}{self._sum((self.trials + self.scouts) * most_s)}")
        if self.confirmations:
            parts.append(
                f"{'then ' if self.trials else ''}the winner once more for longer, 1 launch; only where single launches"
                f" leave a doubt, a race as well: at most {self.confirmations} launches"
                f"{self._sum(self.confirmations * most_s, ', ')}"
            )
        if self.budget_left_s is not None and parts:
            left = f"{seconds(self.budget_left_s)} of the budget are left"
            left = (
                f"all of it within the {seconds(self.budget_left_s)} that are left of the budget" if self._cut else left
            )
            parts.append(f"{left}: what would pass it is not begun")
        return parts or ["nothing is left to launch"]

    @property
    def left_text(self) -> str:
        """For a line that is looked at while it runs: without what confirms the winner, as long as it is sought."""
        most_s = self._within(((self.trials + self.scouts) or self.confirmations) * self.each_s[1])
        if not self.measured or not most_s:
            return ""
        least, most = _span(self.least_s), _span(most_s)
        if least == most:
            return f"{most} left"
        unit = most.rpartition(" ")[2]
        return f"{least.removesuffix(f' {unit}')} to {most} left"

    @property
    def _cut(self) -> bool:
        """The budget is used up before the launches are: their own sum would say nothing."""
        whole = (self.trials + self.scouts + self.confirmations) * self.each_s[1]
        return self.budget_left_s is not None and self.budget_left_s < whole

    def _sum(self, most_s: float, between: str = ": ") -> str:
        return "" if self._cut else f"{between}at most {'about ' if self.measured else ''}{_span(most_s)}"

    def _within(self, needs_s: float) -> float:
        return needs_s if self.budget_left_s is None else min(needs_s, self.budget_left_s)


def expected_search(
    hunt: Hunt,
    window: Window,
    records: Sequence[TrialRecord],
    *,
    trials: int,
    budget_left_s: float | None = None,
    scout: bool = False,
) -> ExpectedSearch:
    """`trials`: those that were asked for, with those that are done. The hunt says which of the study's `records` are
    its own."""
    least, most = hunt.left
    searching = 0 if hunt.stage in ("confirm", "done") else min(most, max(0, trials - hunt.counted))
    # The user's own settings alone have no winner over them.
    alone = trials == 1 and hunt.stage in ("baseline", "searching")
    alone = alone and not any(has_rate(record) and record.asked for record in records)
    each_s = _each_s([record for record in records if record.trial in hunt.trials], window)
    return ExpectedSearch(
        trials=searching,
        confirmations=0 if alone else most - searching,
        least=least,
        each_s=each_s or (0.0, window.trial_time_s),
        measured=each_s is not None,
        budget_left_s=budget_left_s,
        scouts=1 if scout and searching > (hunt.baseline is None) else 0,
    )


def scout_to_come(space: Space, experiment: Experiment, records: Sequence[TrialRecord]) -> bool:
    """A trial that turned a knob from inside, and ran, has had its scout run."""
    if any(has_rate(record) and needs_scout(record.asked or {}, experiment) for record in records):
        return False
    turned = (name for one in space.dimensions for choice in one.choices for name in choice)
    return needs_scout(dict.fromkeys((*experiment.settings, *turned)), experiment)


def _each_s(own: Sequence[TrialRecord], window: Window) -> tuple[float, float] | None:
    """Of a launch with the fewest steps at the quickest pace seen, and with the most at the slowest."""
    ran = [
        (record.seconds, record.measurement)
        for record in own
        if record.status is TrialStatus.COMPLETED and record.measurement.steps_measured > 0
    ]
    steps_s = [measured.step_time_s.mean for _, measured in ran if measured.step_time_s is not None]
    besides_s = [max(0.0, took_s - _stepping_s(measured)) for took_s, measured in ran if measured.step_time_s]
    if not steps_s:
        return None
    quick_s, slow_s = window.steps * min(steps_s), window.max_steps * max(steps_s)
    least_s, most_s = (median(besides_s) + min(s, window.trial_time_s) for s in (quick_s, slow_s))
    return least_s, most_s


def _stepping_s(measured: Measurement) -> float:
    return measured.steps_measured * measured.step_time_s.mean if measured.step_time_s is not None else 0.0


def _span(value_s: float) -> str:
    return span_text(value_s, value_s)
