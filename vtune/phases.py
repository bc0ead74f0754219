"""A plan of phases walked through the loop: told before each trial, kept beside the journal after it, reported at the
end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from vtune.analysis.comparable import has_rate
from vtune.analysis.model.missed import missed
from vtune.domain.experiment import Experiment
from vtune.domain.machine import Machine
from vtune.domain.phases import Missed, Phase, Plan, Walk
from vtune.domain.progress import TrialFinished, TrialStarted, TuningEvent, WalkMoved
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal, TrialStatus
from vtune.journal.ignored_flags import heeding
from vtune.journal.paths import StudyPaths
from vtune.knobs.ways import current_settings
from vtune.reporting.phase_words import plan_phases
from vtune.reporting.phases_of_study import phases_of, write_phases
from vtune.reporting.report_files import Written, write_report_files
from vtune.reporting.study_report import StudyReport, read_study_report
from vtune.strategies.foresight import fitted
from vtune.strategies.left_out import left_out
from vtune.strategies.phases import Phases
from vtune.strategies.reachable import reachable
from vtune.tuner import Tuning, tune


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPhases:
    """What was asked for, beside the experiment."""

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
        return plan_phases(self.plan, self.up_to)

    def strategy(self, experiment: Experiment, machine: Machine, others: frozenset[int]) -> Phases:
        return Phases(
            plan=self.plan,
            experiment=experiment,
            machine=machine,
            up_to=self.up_to,
            extend=self.extend,
            with_options=self.options,
            confirm=self.confirm,
            left_out=others,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseResult:
    study: str
    plan: Plan
    walk: Walk
    # The study by its journal, with its choice under the limits and what the phases missed.
    report: StudyReport
    machine: Machine
    interrupted: bool = False
    # Files of the report, and those that could not be written.
    written: Written


def run_phases(tuning: Tuning, asked: AskedPhases) -> PhaseResult:
    """As far as the plan goes, or until it is interrupted; what the journal has already is not measured again."""
    study, machine = tuning.study, tuning.machine
    experiment = heeding(tuning.experiment, study.paths)
    before = study.journal.read()
    others = left_out(before, experiment, study.paths)
    walking = _Walking(asked.strategy(experiment, machine, others), tuning.notify, study.paths)
    interrupted = False
    try:
        history = tune(replace(tuning, notify=walking.pass_on), walking)
        interrupted = len(history) > len(before) and history[-1].status is TrialStatus.INTERRUPTED
    except KeyboardInterrupt:
        if walking.trial_runs:
            # The second one: whoever presses it again wants out.
            raise
        history, interrupted = study.journal.read(), True
    walk = walking.strategy.walk(history)
    tuning.notify(WalkMoved(walk=walk, records=tuple(history)))
    found = what_was_missed(walk, asked, history, experiment, machine)
    walking.keep(walk, found)
    report = read_study_report(study.paths)
    return PhaseResult(
        study=experiment.study,
        plan=asked.plan,
        walk=walk,
        report=report,
        machine=machine,
        interrupted=interrupted,
        written=write_report_files(report, ("md", "csv")),
    )


def what_was_missed(
    walk: Walk, asked: AskedPhases, history: Sequence[TrialRecord], experiment: Experiment, machine: Machine
) -> Missed | None:
    """What the phases would have found had they turned their knobs together, by the model of their own trials."""
    if walk.stage != "done" or walk.stopped is not None or walk.baseline is None or walk.best is None:
        return None
    records = [record for record in history if record.trial in walk.trials]
    model = fitted(records, machine)
    if model is None or not has_rate(walk.best):
        return None
    seen = {name: value for name, value in walk.baseline.settings.items() if value is not None}
    candidates = reachable(
        asked.phases,
        own={**current_settings(experiment), **seen, **experiment.settings},
        won=walk.settings,
        experiment=experiment,
        machine=machine,
    )
    return missed(model, candidates, walk.best, experiment.limits)


class _Walking:
    """The strategy as the loop sees it: each step of the walk is told and kept before the next trial begins."""

    def __init__(self, strategy: Phases, notify: Callable[[TuningEvent], None], paths: StudyPaths) -> None:
        self.strategy = strategy
        self.trial_runs = False
        self._notify, self._paths = notify, paths

    def propose(self, history: Sequence[TrialRecord]) -> Proposal | None:
        walk = self.strategy.walk(history)
        self.keep(walk)
        self._notify(WalkMoved(walk=walk, records=tuple(history)))
        return walk.proposal

    def pass_on(self, event: TuningEvent) -> None:
        if isinstance(event, TrialStarted):
            self.trial_runs = True
        elif isinstance(event, TrialFinished):
            self.trial_runs = False
        self._notify(event)

    def keep(self, walk: Walk, found: Missed | None = None) -> None:
        asked = self.strategy
        phases = phases_of(
            walk,
            asked.plan,
            up_to=asked.up_to,
            limits=asked.experiment.limits,
            missed=found,
            left_out=asked.left_out,
        )
        # The journal is the memory; this is only shown. Where the disk takes neither, the journal says so.
        with contextlib.suppress(OSError):
            write_phases(self._paths.phases, phases)
