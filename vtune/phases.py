"""A plan of phases walked through the loop: told before each trial, kept beside the journal after it, reported at the
end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vtune.analysis.comparable import has_rate
from vtune.analysis.model.missed import missed
from vtune.analysis.repeated_trial import found_in, would_repeat
from vtune.domain.experiment import Experiment
from vtune.domain.machine import Machine
from vtune.domain.phases import AskedPhases, Missed, Plan, Walk
from vtune.domain.progress import TuningEvent, WalkMoved
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal
from vtune.journal.ignored_flags import heeding
from vtune.journal.paths import StudyPaths
from vtune.knobs.ways import current_settings
from vtune.one_core import on_one_core
from vtune.reporting.phases_of_study import phases_of, write_phases
from vtune.reporting.report_files import Written, write_report_files
from vtune.reporting.study_report import StudyReport, read_study_report
from vtune.strategies.foresight import fitted
from vtune.strategies.known import last_trial
from vtune.strategies.left_out import left_out
from vtune.strategies.phases import Phases
from vtune.strategies.reachable import reachable
from vtune.tuner import Tuning, tune_until_stopped


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


@on_one_core()
def run_phases(tuning: Tuning, asked: AskedPhases) -> PhaseResult:
    """As far as the plan goes, or until it is interrupted; what the journal has already is not measured again."""
    study, machine = tuning.study, tuning.machine
    experiment = heeding(tuning.experiment, study.paths)
    before = study.journal.read()
    others = left_out(before, experiment, study.paths)
    strategy = Phases(asked, experiment, machine, left_out=others, already=last_trial(before), anyway=tuning.anyway)
    walking = _Walking(strategy, tuning.notify, study.paths)
    history, interrupted = tune_until_stopped(tuning, walking)
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
    own = {**current_settings(experiment), **seen, **experiment.settings}
    candidates = reachable(asked.phases, own=own, won=walk.settings, experiment=experiment, machine=machine)
    repeated = found_in(records)
    candidates = [one for one in candidates if would_repeat(repeated, one.get("workers"), own.get("workers")) is None]
    return missed(model, candidates, walk.best, experiment.limits)


class _Walking:
    """The strategy as the loop sees it: each step of the walk is told and kept before the next trial begins."""

    def __init__(self, strategy: Phases, notify: Callable[[TuningEvent], None], paths: StudyPaths) -> None:
        self.strategy = strategy
        self._notify, self._paths = notify, paths

    def propose(self, history: Sequence[TrialRecord]) -> Proposal | None:
        walk = self.strategy.walk(history)
        self.keep(walk)
        self._notify(WalkMoved(walk=walk, records=tuple(history)))
        return walk.proposal

    def keep(self, walk: Walk, found: Missed | None = None) -> None:
        own = self.strategy
        phases = phases_of(walk, own.asked, limits=own.experiment.limits, missed=found, left_out=own.left_out)
        # The journal is the memory; this is only shown. Where the disk takes neither, the journal says so.
        with contextlib.suppress(OSError):
            write_phases(self._paths.phases, phases)
