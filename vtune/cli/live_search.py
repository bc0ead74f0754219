"""A search as it goes: the space first, then each trial with what was predicted and what it came to; on a terminal, two
rows below for the trial that runs."""

from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console

from vtune.analysis.comparable import has_rate, metric_of
from vtune.cli.live import notice_text
from vtune.cli.live_phases import state_text
from vtune.cli.live_rows import LiveRows
from vtune.cli.search_plan import limits_text, space_lines
from vtune.domain.experiment import Experiment
from vtune.domain.numbers import rate, trials_text
from vtune.domain.progress import (
    FilesPutBack,
    HuntMoved,
    KeptFromInside,
    TrialDisturbed,
    TrialFinished,
    TrialProgress,
    TrialStarted,
    TuningEvent,
    UnprovenLeft,
    WaitingForQuiet,
)
from vtune.domain.record import TrialRecord
from vtune.domain.search import Hunt
from vtune.domain.trial import OWN_AGAIN, SAME_TRAINING, TrialSpec, confirms
from vtune.reporting.phase_words import Measured
from vtune.reporting.search_times import ExpectedSearch
from vtune.reporting.search_words import asked_text, changes_text, left_out_text, not_turned_text, span
from vtune.reporting.words import marked, settings_text
from vtune.search import AskedSearch


class SearchProgress(LiveRows):
    """Receives the loop's events."""

    def __init__(self, console: Console, asked: AskedSearch, experiment: Experiment) -> None:
        super().__init__(console)
        self._asked, self._experiment = asked, experiment
        self.hunt: Hunt | None = None
        self.moved: HuntMoved | None = None
        self._records: dict[int, TrialRecord] = {}
        self._spec: TrialSpec | None = None
        self._scout = False
        # Trials that were told of; those before the search are told together.
        self._told: set[int] = set()
        self._baseline_told = False
        self._confirming_told = set[str]()

    @property
    def records(self) -> list[TrialRecord]:
        """As far as they were told, in the order in which they were run."""
        return list(self._records.values())

    def __call__(self, event: TuningEvent) -> None:
        match event:
            case UnprovenLeft() | KeptFromInside() | FilesPutBack() | WaitingForQuiet() | TrialDisturbed():
                self.say(notice_text(event))
            case HuntMoved():
                self._move(event)
            case TrialStarted():
                self._start(event)
            case TrialProgress():
                self._draw(state_text(event))
            case TrialFinished():
                self.end()
                self._records[event.record.trial] = event.record

    def _move(self, event: HuntMoved) -> None:
        before, self.moved, self.hunt = self.moved, event, event.hunt
        self._records |= {record.trial: record for record in event.records}
        if before is None:
            self._tell_plan(event)
        elif len(before.space.settings) != len(event.space.settings):
            changes = changes_text(before.space, event.space)
            self.say(changes or "what may be turned, by what your training runs with:", hang=2)
            if changes is None:
                self._tell_space(event)
        baseline = event.hunt.baseline
        if baseline is not None and not self._baseline_told:
            self._baseline_told = True
            self._tell_baseline(baseline)
        for record in event.records:
            if record.trial not in self._told:
                self._tell_trial(record)

    def _tell_plan(self, event: HuntMoved) -> None:
        asked = self._asked
        self.say(f"search, {asked_text(asked.sampler, asked.trials, asked.budget_s)}", hang=2)
        self._tell_space(event)
        self.say(f"limits: {limits_text(self._experiment)}")
        known = [trial for trial in event.hunt.trials if trial in self._records]
        self._told |= {record.trial for record in event.records}
        if known:
            self.say(f"known already: {trials_text(known)}", hang=2)
        if event.hunt.left_out:
            self.say(left_out_text(event.hunt.left_out), hang=2)
        if event.hunt.baseline is None or event.hunt.proposal is None:
            self._tell_left()  # else it follows the baseline

    def _tell_space(self, event: HuntMoved) -> None:
        left_out = event.space.left_out
        for line in [*space_lines(event.space, event.hunt), *([not_turned_text(left_out)] if left_out else [])]:
            self.say(f"  {line}", hang=4)

    def _tell_left(self) -> None:
        for line in self._expected().lines:
            self.say(line, hang=2)

    def _expected(self) -> ExpectedSearch:
        assert self.moved is not None
        return self._asked.expected(self.moved.hunt, self.moved.space, self._experiment, self.records)

    def _tell_baseline(self, baseline: TrialRecord) -> None:
        self._told.add(baseline.trial)
        made, waiting = self._seen().rate(baseline.trial), baseline.measurement.data_wait_fraction
        wait = f", waiting for data {waiting:.0%} of the time" if made is not None and waiting is not None else ""
        shown = has_rate(baseline) or (baseline.on_busy_machine and made is not None)
        what = f"{rate(made)} samples/s{marked(baseline)}{wait}" if shown else _failure(baseline)
        asked = self._experiment.settings
        whose = f"your settings with {settings_text(asked)}" if asked else "your own settings"
        self.say(f"{whose}: {what} (trial {baseline.trial})", hang=2)
        if self.hunt is not None and self.hunt.proposal is not None:
            self._tell_left()

    def _tell_trial(self, record: TrialRecord) -> None:
        self._told.add(record.trial)
        asked = settings_text(dict(record.asked or {})) or "your own settings"
        confirming = confirms(record.origin)
        head = record.reason if confirming else asked
        if record.on_busy_machine and self._seen().rate(record.trial) is not None:
            self._tell_undecided(head, record)
            return
        if not has_rate(record):
            self.say(f"  ✗ {head}: {_failure(record)} (trial {record.trial})", hang=4)
            return
        foretold = f"{span(record.predicted)} predicted → " if record.predicted is not None else ""
        is_best = self.hunt is not None and self.hunt.best is not None and self.hunt.best.trial == record.trial
        over = self.hunt.over.get(record.trial) if self.hunt is not None else None
        sign = "✗ " if over is not None else "✓ best so far, " if is_best and not confirming else "· "
        made = f"{rate(self._seen().rate(record.trial))} samples/s{self._over_own(record)}"
        unfit = f", but {over}" if over is not None else ""
        self.say(f"  {sign}{head}: {foretold}{made} (trial {record.trial}){unfit}", hang=4)

    def _tell_undecided(self, head: str, record: TrialRecord) -> None:
        made = f"{rate(self._seen().rate(record.trial))} samples/s{marked(record)}"
        self.say(f"  ? {head}: {made}, decides nothing (trial {record.trial})", hang=4)

    def _over_own(self, record: TrialRecord) -> str:
        seen, baseline = self._seen(), self.hunt.baseline if self.hunt is not None else None
        if baseline is None or baseline.trial == record.trial:
            return ""
        own, made = seen.rate(baseline.trial), seen.rate(record.trial)
        return f", {made / own:.3g}× yours" if own and made else ""

    def _start(self, event: TrialStarted) -> None:
        self._spec, self._scout = event.spec, event.scout
        spec = event.spec
        if confirms(spec.origin) and (how := _confirming(spec)) not in self._confirming_told:
            self._confirming_told.add(how)
            self.say(f"confirming: {how}")
        self.begin()
        if self.are_live:
            self._draw("starting")
        elif not self.is_terminal:
            heading, *rest = self._status().split(", ")
            told = f" ({', '.join(rest)})" if rest else ""
            self.say(f"  {heading}{told}: {self._tried()}{self._why()}")

    def _draw(self, state: str) -> None:
        """What moves stays whole: of what is tried, as many settings stand before it as there is room for."""
        tried = self._tried()
        words = tried.split(" ")
        while cell_len(f"  ▸ {tried}: {state}") > self.width and len(words) > 1:
            words.pop()
            tried = f"{' '.join(words)} …"
        self.draw(f"  ▸ {tried}: {state}", self._status(" · "))

    def _tried(self) -> str:
        spec = self._spec
        if spec is None or self._scout or confirms(spec.origin):
            return spec.reason if spec is not None else ""
        return settings_text(spec.settings) or spec.reason

    def _why(self) -> str:
        """Beside what it tries."""
        spec = self._spec
        if spec is None or self._scout or confirms(spec.origin) or not spec.settings:
            return ""
        foretold = f", predicted {span(spec.predicted)} samples/s" if spec.predicted is not None else ""
        return f": {spec.reason}{'' if spec.reason.startswith('predicted') else foretold}"

    def _status(self, between: str = ", ") -> str:
        """trial 3 of 20, 2 to 9 min left, best so far 12.3 samples/s, 2× yours."""
        number, hunt = self._spec.trial if self._spec is not None else 0, self.hunt
        if self._scout:
            return f"scout run before trial {number}"
        if hunt is None or self._spec is None:
            return f"trial {number}"
        parts = [f"trial {number}"]
        if hunt.stage != "confirm":
            at, of = hunt.counted + 1, self._asked.trials
            parts = [f"trial {number} of {of}" if at == number else f"trial {number} ({at} of {of})"]
        left = self._expected().left_text
        parts += [left] if left else []
        if hunt.best is not None and hunt.stage != "confirm":
            made = self._seen().rate(hunt.best.trial)
            parts.append(f"best so far {rate(made)} samples/s{self._over_own(hunt.best)}")
        if self.are_live and self._spec.predicted is not None:
            parts[1:1] = [f"predicted {span(self._spec.predicted)}"]
        return between.join(parts)

    def _seen(self) -> Measured:
        hunt = self.hunt
        own = [one for one in self.records if hunt is not None and one.trial in hunt.trials]
        rated = [one for one in own if has_rate(one)] or [one for one in own if one.on_busy_machine]
        return Measured(self._records, hunt.baseline if hunt is not None else None, metric_of(rated))


def _failure(record: TrialRecord) -> str:
    return f"{record.status.value.replace('_', ' ')}: {record.detail or 'no detail is known'}"


def _confirming(spec: TrialSpec) -> str:
    if spec.race is not None:
        return "the winner against what it has to beat, launched in turns"
    if spec.origin == SAME_TRAINING:
        return "the winner beside the best that trains as yours does"
    if spec.origin == OWN_AGAIN:
        return "your own settings once more"
    return "the winner once more, for longer"
