"""One look of a search at the journal: how far it has come, and what to launch next."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from vtune.analysis.beaten import beat_of
from vtune.analysis.comparable import has_rate, metric_of, same_cache, settings_of
from vtune.analysis.feasible import leaders
from vtune.analysis.race import DELTA
from vtune.analysis.rungs import ruled_out, too_big_for
from vtune.domain.compared import Beat
from vtune.domain.effects import Scalar
from vtune.domain.numbers import seconds
from vtune.domain.record import TrialRecord
from vtune.domain.search import Hunt, Space
from vtune.domain.trial import Proposal, TrialStatus, confirms
from vtune.knobs.loader import WORKERS
from vtune.knobs.ways import current_settings
from vtune.strategies.confirm import LONGER, MOST_LAUNCHES, Confirmation, Found, confirmation_of
from vtune.strategies.foresight import fitted
from vtune.strategies.known import Known
from vtune.strategies.search_asked import ORIGIN, Asked, Done, Ended, done_of, settings_words
from vtune.strategies.search_auto import NOT_WORTH_IT, Outlook
from vtune.strategies.search_fit import gentler_settings, nearest_relaxation, nothing_fits
from vtune.strategies.search_next import IN_VAIN, Chooser
from vtune.strategies.search_seen import Seen, fastest_of, fitting_of
from vtune.strategies.search_values import Values, more_workers, values_ran
from vtune.strategies.space import may_launch, space_of
from vtune.strategies.turned import turned

# So many looks in a row have to say that nothing is to be won; and after so few trials a model knows too little of what
# it does not know to say it; of fewer where what it said of each has come,
# or where trials hardly pay.
LOOKS, LEAST_TRIALS, LEAST_SOONER, LEAST_OF_STEPS = 2, 10, 6, 4
MOST_WORTH, UNFORETOLD = DELTA, 5.0
# Of what has not been tried, so many are told.
NEXT_BEST = 5


class Look:
    def __init__(self, asked: Asked, history: Sequence[TrialRecord]) -> None:
        self._asked, self._history = asked, history
        self._named = current_settings(asked.experiment)
        self._spaces: dict[Hashable, Space] = {}
        self._allowed: dict[Hashable, frozenset[int]] = {}
        self._known = self._known_by(history)
        # What failed by itself may be mended by now: each call asks for it once more.
        self._baseline = self._known.answer(asked.experiment.settings, mended=True)

    def hunt(self) -> Hunt:
        baseline = self._baseline
        if baseline is None:
            return self._first()
        self._done = self._done_by(self._history)
        # What ended the search is judged as it was then: what confirms takes time as well, and opens nothing again.
        self._searched = self._done_by(
            [one for one in self._history if not confirms(one.origin) or one.trial <= self._until]
        )
        self._seen = self._seen_by(self._known, baseline)
        self._outlook = Outlook(self._seen)
        self._chooser = Chooser(asked=self._asked, outlook=self._outlook)
        stopped = self._to_build_on(baseline)
        if stopped is not None:
            return stopped
        ended = self._searched.spent(self._asked, claims=self._claims)
        if ended is None and (why := self._read_otherwise(baseline)) is not None:
            return self._told(self._proposal(self._asked.experiment.settings, why), None)
        ended = ended or self._nothing_to_win()
        pick = self._chooser.pick() if ended is None else None
        # What confirmed an earlier end of it is paid for as well.
        if pick is not None and (spent := self._done.spent(self._asked, claims=self._claims)) is not None:
            ended, pick = spent, None
        if pick is None:
            return self._confirm(ended or Ended(why="every setting that is likely to fit has been tried"))
        return self._told(self._proposal(pick.settings, pick.reason), self._confirmation(launches=False))

    def _first(self) -> Hunt:
        settings, asked = self._asked.experiment.settings, self._asked
        model = fitted(self._known.told, asked.machine)
        proposal = Proposal(
            settings=dict(settings),
            reason=f"asked for {settings_words(settings)}" if settings else "the current settings",
            origin=ORIGIN,
            predicted=model.predict(settings) if model is not None else None,
        )
        done = self._done_by(self._history)
        most = max(1, asked.trials - done.counted) + (MOST_LAUNCHES if asked.confirm else 0)
        return Hunt(
            sampler=asked.sampler, stage="baseline", proposal=proposal, baseline=None, best=None,
            settings=dict(settings), left=(1, most), counted=done.counted, used_s=done.used_s + asked.scout_s,
        )  # fmt: skip

    def _done_by(self, history: Sequence[TrialRecord]) -> Done:
        allowed = self._may_launch(self._own_by(self._baseline))
        counts = {one.trial for one in self._known.answers if one.trial in allowed}
        return done_of(history, self._baseline, counts=counts)

    def _to_build_on(self, baseline: TrialRecord) -> Hunt | None:
        """The trial that looks for something, or why there is nothing; None where there is."""
        asked, seen = self._asked, self._seen
        if seen.fitting:
            return None
        too_big = too_big_for(baseline, asked.experiment.limits, asked.machine.ram_bytes)
        if too_big is None:
            if baseline.on_busy_machine or (baseline.status is TrialStatus.COMPLETED and has_rate(baseline)):
                return None
            said = ruled_out(baseline, asked.experiment.limits, asked.machine.ram_bytes)
            return self._stopped(f"trial {baseline.trial}, of what is set now, gives nothing to build on: {said}")
        if self._outlook.candidates:
            return None
        memory, words = too_big
        spent = self._done.spent(asked, claims=False)
        gentle = gentler_settings(seen, memory)
        if spent is None and gentle.settings is not None:
            said = f"what is set does not fit: {settings_words(gentle.settings)}"
            return self._told(self._proposal(gentle.settings, said), None)
        why = f"; {spent.why}" if spent is not None else f", and {gentle.text}"
        nearest = nearest_relaxation(seen)
        return self._stopped(f"what is set does not fit (trial {baseline.trial}: {words}){why}{nearest}")

    def _read_otherwise(self, baseline: TrialRecord) -> str | None:
        """Why the user's own settings are launched again: nothing is compared with what read its data otherwise."""
        best, own = self._leader, self._asked.experiment.settings
        if best is None or not has_rate(baseline) or same_cache(best, baseline):
            return None
        regime = best.measurement.cache
        known = self._known.answer_read(own, {**self._seen.own, **own}, cache=regime, after=best.trial)
        if known is not None:
            return None
        was = f"trial {baseline.trial} read its data {baseline.measurement.cache}"
        return f"your own settings once more: {was}, trial {best.trial} {regime}"

    def _stopped(self, why: str) -> Hunt:
        return replace(self._told(None, None), stage="done", stopped=why, best=None)

    def _proposal(self, wanted: Mapping[str, Scalar], reason: str) -> Proposal:
        model = self._seen.model
        predicted = model.predict(wanted) if model is not None else None
        # Never one of the user's own settings, which all others are compared with.
        beat = self._to_be_beaten() if wanted != self._asked.experiment.settings else None
        return Proposal(settings=dict(wanted), reason=reason, origin=ORIGIN, predicted=predicted, beat=beat)

    def _to_be_beaten(self) -> Beat | None:
        """A trial that is surely slower than the best so far ends early."""
        ranked_by = metric_of(self._seen.fitting)
        best = self._seen.fastest
        return beat_of(best, ranked_by, self._asked.machine.cores) if best is not None else None

    @property
    def _claims(self) -> bool:
        """Others than the user's own lead, by a launch that a longer one is to confirm."""
        best, longer = self._leader, LONGER * self._asked.experiment.window.max_steps
        if best is None or self._baseline is None or best.measurement.steps_measured >= longer:
            return False
        return settings_of(best) != settings_of(self._baseline)

    @cached_property
    def _leader(self) -> TrialRecord | None:
        """By what was known before anything was confirmed: else the first rounds of a race might end it."""
        return fastest_of([one for one in self._seen.fitting if one.trial <= self._until])

    def _nothing_to_win(self) -> Ended | None:
        """By what was known before anything was confirmed: the confirmations must not open the search again. Only who
        rests on the model can say so; one that was off is taken to be off as much again."""
        if self._asked.sampler != "auto" or self._chooser.unexplored:
            return None
        if not self._seen.fitting and self._on_busy_machine:
            return None
        until = self._until
        own = [one.trial for one in self._known.records if one.origin == ORIGIN and one.trial <= until]
        worth = self._worth_a_trial
        if self._outlook.only_other_trainings:
            # Two launches do not show less of another training, and it is not chosen for less.
            worth = MOST_WORTH
        sooner = self._chooser.foretold_well or worth >= MOST_WORTH
        least = LEAST_SOONER if sooner else LEAST_TRIALS
        if self._outlook.loading_is_enough:
            if not self._outlook.allowed:
                return Ended(
                    why="the training waits for nothing that could be loaded sooner, and nothing else is turned"
                )
            # Only what the step itself takes is open, of which each trial tells by its own.
            least = LEAST_OF_STEPS
        if self._done.counted < least:
            return None
        before = self._chooser.in_vain(until) if self._chooser.mistrust is not None else None
        if before is not None:
            why = f"{IN_VAIN} of Optuna's trials and the model's between them won nothing over trial {before.trial}"
            return Ended(why=why)
        off_times, found = self._chooser.off_times, -math.inf
        for look in [until, *(trial - 1 for trial in reversed(own))][:LOOKS]:
            outlook = self._outlook_at(look)
            if outlook is None or not outlook.nothing_to_win(off_times=off_times, worth=worth):
                return None
            found = max(found, outlook.most(off_times=off_times))
        if found == -math.inf:
            return Ended(why="every setting that is likely to fit has been tried")
        wins = max(0.0, math.expm1(found))
        of_run = f": it takes longer than that of a run of {seconds(self._run_s)}" if worth > NOT_WORTH_IT else ""
        return Ended(why=f"another trial would win {wins:.1%} on average, less than it is worth{of_run}")

    @property
    def _worth_a_trial(self) -> float:
        """What it has to win on average: as much of a run as the trial takes, where that is short; and never more than
        what counts as equal. A model that has not foretold the last ones well may miss several times as much."""
        hidden = 1.0 if self._chooser.foretold_well else UNFORETOLD
        return min(MOST_WORTH, max(NOT_WORTH_IT, self._done.trial_s / self._run_s / hidden))

    @property
    def _run_s(self) -> float:
        """Of the whole run with the best so far; without an end where nobody knows it."""
        best = self._seen.fastest
        run_s = best.measurement.projected.run_s if best is not None else None
        return run_s or math.inf

    @cached_property
    def _until(self) -> int:
        """The last trial that confirmed nothing."""
        return max((one.trial for one in self._known.records if not confirms(one.origin)), default=0)

    def _outlook_at(self, trial: int) -> Outlook | None:
        """As it was when this trial had ended."""
        history = [one for one in self._history if one.trial <= trial]
        if len(history) == len(self._history):
            return self._outlook
        known = self._known_by(history)
        baseline = known.answer(self._asked.experiment.settings, mended=True)
        return Outlook(self._seen_by(known, baseline)) if baseline is not None else None

    def _confirm(self, ended: Ended) -> Hunt:
        if not self._seen.fitting and self._on_busy_machine:
            why = "all trials ran on a busy machine: they decide nothing"
            return replace(self._told(None, None), stage="done", ended=why)
        if not self._seen.fitting:
            return self._stopped(nothing_fits(self._seen))
        confirmed, why = self._confirmation(launches=self._asked.confirm), ended.why
        proposal, model = confirmed.proposal, self._seen.model
        if proposal is not None:
            next_s = self._done.trial_s * (LONGER if proposal.steps is not None else 1)
            over = self._done.passes(self._asked, next_s)
            if over is not None:
                why, proposal = f"{why}; its winner is not confirmed: {over.why}", None
        if proposal is not None and model is not None:
            proposal = replace(proposal, predicted=model.predict(proposal.settings))
        return replace(
            self._told(proposal, confirmed),
            ended=why,
            given_back=max(0, self._asked.trials - self._searched.counted) if ended.gives_back else 0,
            stage="done" if proposal is None else "confirm",
            left=confirmed.left if proposal is not None else (0, 0),
        )

    def _confirmation(self, *, launches: bool) -> Confirmation:
        seen, winner, allowed = self._seen, self._leader, self._may_launch(self._seen.own)
        found = Found(
            experiment=self._asked.experiment,
            machine=self._asked.machine,
            baseline=self._baseline,
            own=seen.own,
            trials=[one.trial for one in self._known.records if one.trial <= self._until and one.trial in allowed],
            winner=winner,
            settings={**self._asked.experiment.settings, **(turned(winner) if winner is not None else {})},
            candidates=seen.space.settings,
        )
        return confirmation_of(found, self._known, self._history, launches=launches)

    def _told(self, proposal: Proposal | None, confirmed: Confirmation | None) -> Hunt:
        asked, done, outlook = self._asked, self._done, self._outlook
        most = max(1, asked.trials - done.counted) + (MOST_LAUNCHES if asked.confirm else 0)
        by_failure = sum(one.by_failure for one in outlook.ruled_out.values())
        doubt = self._chooser.mistrust if asked.sampler == "auto" else None
        return Hunt(
            sampler=asked.sampler,
            stage="searching" if self._seen.fitting else "baseline",
            proposal=proposal,
            baseline=self._baseline,
            best=confirmed.best if confirmed is not None else None,
            settings=dict(confirmed.settings if confirmed is not None else asked.experiment.settings),
            trials=self._trials(confirmed),
            counted=done.counted,
            used_s=done.used_s + asked.scout_s,
            over=self._over,
            left=(1, most) if proposal is not None else (0, 0),
            settings_in_all=len(self._seen.space.settings),
            over_a_limit=len(outlook.ruled_out) - by_failure,
            ruled_out_by_failures=by_failure,
            remarks=(doubt.text,) if doubt is not None else (),
            space=self._seen.space,
            next_best=outlook.next_best(NEXT_BEST),
        )

    @property
    def _on_busy_machine(self) -> bool:
        return any(one.on_busy_machine for one in self._known.records)

    @property
    def _over(self) -> Mapping[int, str]:
        limits, ram_bytes = self._asked.experiment.limits, self._asked.machine.ram_bytes
        rated = [one for one in self._known.records if has_rate(one)]
        return {one.trial: why for one in rated if (why := ruled_out(one, limits, ram_bytes)) is not None}

    def _trials(self, confirmed: Confirmation | None) -> tuple[int, ...]:
        """Also what confirmed before, whether it is asked for now or not: it took its time."""
        if confirmed is None:
            return tuple(one.trial for one in self._known.records)
        first = min((one.trial for one in self._known.records if one.origin == ORIGIN), default=math.inf)
        before = (one.trial for one in self._known.records if confirms(one.origin) and one.trial > first)
        return tuple(sorted({*confirmed.trials, *before}))

    def _known_by(self, history: Sequence[TrialRecord]) -> Known:
        experiment, machine = self._asked.experiment, self._asked.machine
        limit = experiment.limits.ram.resolve(machine.ram_bytes) if experiment.limits.ram is not None else None
        return Known(
            history,
            named=self._named,
            ram_limit_bytes=limit,
            vram_limit=experiment.limits.vram,
            already=self._asked.already,
            leaders=leaders(history, experiment.limits, machine.ram_bytes),
            anyway=self._asked.anyway,
        )

    def _seen_by(self, known: Known, baseline: TrialRecord) -> Seen:
        experiment, machine = self._asked.experiment, self._asked.machine
        own = self._own_by(baseline)
        seen = Seen(
            experiment=experiment,
            machine=machine,
            known=known,
            baseline=baseline,
            own=own,
            space=Space(dimensions=(), settings=()),
            ran=fitting_of(known.records, experiment.limits, machine.ram_bytes),
            fitting=(),
        )
        allowed = self._may_launch(own)
        seen = replace(seen, fitting=[one for one in seen.ran if one.trial in allowed])
        ran = values_ran(seen.fitting)
        seen = replace(seen, space=self._space(own, baseline, ran))
        more = more_workers(seen)
        if not more:
            return seen
        ran = {**ran, WORKERS.name: ran.get(WORKERS.name, frozenset()) | more}
        return replace(seen, space=self._space(own, baseline, ran))

    def _own_by(self, baseline: TrialRecord | None) -> Mapping[str, Scalar]:
        """What the user's configuration runs with, as far as it says so or its first trial has shown."""
        seen = baseline.settings.items() if baseline is not None else ()
        shown = {name: value for name, value in seen if value is not None}
        return {**self._named, **shown, **self._asked.experiment.settings}

    def _may_launch(self, own: Mapping[str, Scalar]) -> frozenset[int]:
        """Trials whose settings this search may launch. It is asked often, and a journal holds few different ones."""
        key = frozenset(own.items())
        if key not in self._allowed:
            experiment, by_names = self._asked.experiment, dict[frozenset[str], bool]()
            by_asked = defaultdict[frozenset[tuple[str, Scalar]], list[TrialRecord]](list)
            for record in self._known.records:
                by_asked[frozenset(turned(record).items())].append(record)
            self._allowed[key] = frozenset(
                record.trial
                for asked, records in by_asked.items()
                if may_launch(dict(asked), named=self._named, own=own, experiment=experiment, by_names=by_names)
                for record in records
            )
        return self._allowed[key]

    def _space(self, own: Mapping[str, Scalar], baseline: TrialRecord, ran: Values) -> Space:
        key = frozenset(own.items()), frozenset(ran.items())
        if key not in self._spaces:
            self._spaces[key] = space_of(
                self._asked.experiment, self._asked.machine, own=own, baseline=baseline, ran=ran
            )
        return self._spaces[key]
