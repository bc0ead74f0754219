"""A joint search through the loop: told before each trial, kept beside the journal after it, reported at the end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from vtune.analysis.comparable import has_rate, launched_rate, metric_of
from vtune.analysis.rungs import ruled_out
from vtune.analysis.search.importance import Foreseen, importances, why_untold
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.machine import Machine
from vtune.domain.progress import HuntMoved, TuningEvent
from vtune.domain.record import TrialRecord
from vtune.domain.search import Hunt, Importance, Sampler, Space
from vtune.domain.trial import Proposal, TrialStatus
from vtune.journal.ignored_flags import heeding
from vtune.journal.paths import StudyPaths
from vtune.journal.scouted import scouted
from vtune.knobs.loader import WORKERS
from vtune.knobs.ways import current_settings
from vtune.one_core import on_one_core
from vtune.reporting.report_files import Written, write_report_files
from vtune.reporting.search_of_study import SearchOfStudy, search_of, write_search
from vtune.reporting.search_times import ExpectedSearch, expected_search, scout_to_come
from vtune.reporting.study_report import StudyReport, read_study_report
from vtune.strategies.foresight import fitted
from vtune.strategies.known import last_trial
from vtune.strategies.left_out import left_out
from vtune.strategies.optuna_samplers import Told, optuna_importance
from vtune.strategies.search import Search
from vtune.strategies.search_asked import ORIGIN
from vtune.strategies.space import USUAL, space_of
from vtune.strategies.turned import turned
from vtune.tuner import Tuning, tune_until_stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSearch:
    """What was asked for, beside the experiment."""

    sampler: Sampler = "auto"
    # The user's own settings among them; confirmations come extra.
    trials: int = 20
    # Of the launches' own seconds, confirmations and a scout run included.
    budget_s: float | None = None
    confirm: bool = True

    def strategy(
        self,
        experiment: Experiment,
        machine: Machine,
        others: frozenset[int],
        *,
        already: int = 0,
        scout_s: float = 0.0,
        anyway: bool = False,
    ) -> Search:
        return Search(
            experiment=experiment,
            machine=machine,
            sampler=self.sampler,
            trials=self.trials,
            budget_s=self.budget_s,
            confirm=self.confirm,
            left_out=others,
            already=already,
            scout_s=scout_s,
            anyway=anyway,
        )

    def expected(
        self,
        hunt: Hunt,
        space: Space,
        experiment: Experiment,
        records: Sequence[TrialRecord],
    ) -> ExpectedSearch:
        """`records`: those of the study."""
        # Workers may turn out to be worth more values than there are; nothing else does.
        grows = any(WORKERS.name in choice for one in space.dimensions for choice in one.choices)
        trials = self.trials if grows else min(self.trials, max(len(space.settings), hunt.counted))
        if hunt.stage in ("baseline", "searching"):
            hunt = replace(hunt, left=(hunt.left[0], hunt.left[1] - (self.trials - trials)))
        left_s = None if self.budget_s is None else max(0.0, self.budget_s - hunt.used_s)
        return expected_search(
            hunt,
            experiment.window,
            records,
            trials=trials,
            budget_left_s=left_s,
            scout=scout_to_come(space, experiment, records),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    study: str
    asked: AskedSearch
    hunt: Hunt
    # The study by its journal, with its choice under the limits and what the search shows.
    report: StudyReport
    machine: Machine
    interrupted: bool = False
    # Files of the report, and those that could not be written.
    written: Written


@on_one_core()
def run_search(tuning: Tuning, asked: AskedSearch) -> SearchResult:
    """As far as trials and budget go, or until it is interrupted; what the journal has is not measured again."""
    study, machine = tuning.study, tuning.machine
    experiment = heeding(tuning.experiment, study.paths)
    before = study.journal.read()
    others = left_out(before, experiment, study.paths)
    strategy = asked.strategy(experiment, machine, others, already=last_trial(before), anyway=tuning.anyway)
    hunting = _Hunting(asked, strategy, tuning.notify, study.paths)
    history, interrupted = tune_until_stopped(tuning, hunting)
    hunt = hunting.look(history, ended=True)
    report = read_study_report(study.paths)
    return SearchResult(
        study=experiment.study,
        asked=asked,
        hunt=hunt,
        report=report,
        machine=machine,
        interrupted=interrupted,
        written=write_report_files(report, ("md", "csv")),
    )


def space_by(hunt: Hunt, experiment: Experiment, machine: Machine) -> Space:
    """As far as it is known: what the training runs with by itself, its first trial may have to tell."""
    return hunt.space or space_of(experiment, machine, own=own_settings(hunt.baseline, experiment))


def own_settings(baseline: TrialRecord | None, experiment: Experiment) -> Mapping[str, Scalar]:
    seen = baseline.settings.items() if baseline is not None else ()
    shown = {name: value for name, value in seen if value is not None}
    return {**current_settings(experiment), **shown, **experiment.settings}


def what_mattered(
    hunt: Hunt, space: Space, history: Sequence[TrialRecord], experiment: Experiment, machine: Machine
) -> tuple[Importance, ...]:
    """By the model of the search's own trials, and nothing where it has none or they tell nothing; the shares of
    Optuna's samplers by Optuna itself, where it can tell."""
    records = [record for record in history if record.trial in hunt.trials]
    rated = [record for record in records if has_rate(record)]
    ranked_by, model = metric_of(rated), fitted(records, machine)
    if model is None or hunt.best is None or why_untold(records, ranked_by) is not None:
        return ()

    def rates(asked: Sequence[Mapping[str, Scalar]]) -> Sequence[float | None]:
        return [None if one is None else one.samples_per_s for one in model.predict_all(asked)]

    foreseen = Foreseen(rates=rates, fits=lambda asked: model.fits(asked, experiment.limits))
    own = {**USUAL, **own_settings(hunt.baseline, experiment)}
    measured = [turned(record) for record in rated]
    found = importances(space, own=own, best=hunt.settings, foreseen=foreseen, measured=measured)
    if hunt.sampler == "auto":
        return found
    told = [
        Told(
            settings={**own, **turned(record)},
            samples_per_s=launched_rate(record, ranked_by, None).value,
            over=0.0,
        )
        for record in records
        if ruled_out(record, experiment.limits, machine.ram_bytes) is None
    ]
    shares = optuna_importance(space, told)
    return tuple(replace(one, share=shares[one.knob], by="optuna") if one.knob in shares else one for one in found)


def scout_s_of(study: StudyPaths, history: Sequence[TrialRecord]) -> float:
    """That a scout run of a search took: not one of phases, whose trials are before its first."""
    scout = scouted(study)
    first = min((one.trial for one in history if one.origin == ORIGIN), default=None)
    return scout[1] if scout is not None and first is not None and scout[0] >= first else 0.0


class _Hunting:
    """The strategy as the loop sees it: each look of the search is told and kept before the next trial begins."""

    def __init__(
        self, asked: AskedSearch, strategy: Search, notify: Callable[[TuningEvent], None], paths: StudyPaths
    ) -> None:
        self._asked, self._strategy, self._notify, self._paths = asked, strategy, notify, paths
        # By which trials, and what it came to.
        self._last: tuple[tuple[int, ...], Hunt] | None = None

    def propose(self, history: Sequence[TrialRecord]) -> Proposal | None:
        return self.look(history).proposal

    def look(self, history: Sequence[TrialRecord], *, ended: bool = False) -> Hunt:
        """`ended`: there is time to ask which knob mattered."""
        strategy, hunt = self._strategy, self._hunt_by(history)
        space = space_by(hunt, strategy.experiment, strategy.machine)
        mattered = what_mattered(hunt, space, history, strategy.experiment, strategy.machine) if ended else ()
        # The journal is the memory; this is only shown. Where the disk takes neither, the journal says so.
        with contextlib.suppress(OSError):
            write_search(self._paths.search, self.told(hunt, space, mattered))
        self._notify(HuntMoved(hunt=hunt, space=space, records=tuple(history)))
        return hunt

    def _hunt_by(self, history: Sequence[TrialRecord]) -> Hunt:
        """What was interrupted tells nothing new: after Ctrl-C nobody waits for a proposal that is not launched."""
        by = tuple(one.trial for one in history if one.status is not TrialStatus.INTERRUPTED)
        if self._last is None or self._last[0] != by:
            strategy = replace(self._strategy, scout_s=scout_s_of(self._paths, history))
            self._last = by, strategy.hunt(history)
        return self._last[1]

    def told(self, hunt: Hunt, space: Space, importance: tuple[Importance, ...]) -> SearchOfStudy:
        return search_of(
            hunt,
            space,
            trials=self._asked.trials,
            budget_s=self._asked.budget_s,
            limits=self._strategy.experiment.limits,
            left_out=self._strategy.left_out,
            importance=importance,
        )
