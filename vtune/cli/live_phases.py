"""The walk along a plan as it goes: the plan first, then each step ticked off; on a terminal, two rows below for the
trial that runs."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from vtune.analysis.comparable import has_rate, metric_of
from vtune.cli.live import Rows, so_far_mark, whole_fields
from vtune.cli.phase_plan import outlined
from vtune.domain.experiment import Experiment
from vtune.domain.numbers import bytes_, rate
from vtune.domain.phases import AskedPhases, OptionOutcome, PhaseOutcome, PhaseRung, Walk
from vtune.domain.progress import (
    FilesPutBack,
    KeptFromInside,
    TrialDisturbed,
    TrialFinished,
    TrialProgress,
    TrialStarted,
    TuningEvent,
    UnprovenLeft,
    WaitingForQuiet,
    WalkMoved,
)
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialSpec
from vtune.reporting.inert import harmless
from vtune.reporting.phase_panel import line_grid
from vtune.reporting.phase_times import Expected, expected, scout_to_come
from vtune.reporting.phase_words import (
    Line,
    Measured,
    plan_text,
    predicted_text,
    risk_text,
    rung_lines,
    unmeasured_parts,
)
from vtune.reporting.words import marked, settings_text


class PhaseProgress(Rows):
    """Receives the loop's events. What it has said stays; only the rows of the running trial are drawn over."""

    def __init__(self, console: Console, asked: AskedPhases, experiment: Experiment) -> None:
        super().__init__(console)
        self._asked, self._experiment = asked, experiment
        self.walk: Walk | None = None
        self._records: dict[int, TrialRecord] = {}
        self._spec: TrialSpec | None = None
        self._scout = False
        # Of each phase, how many of its steps were told; a phase that is not in it has no heading yet.
        self._told: dict[int, int] = {}
        self._closed: set[int] = set()
        self._cut: set[int | None] = set()
        self._options_told = 0
        self._baseline_told: int | None = None
        self._race_told = False

    @property
    def records(self) -> list[TrialRecord]:
        """As far as they were told, in the order in which they were run."""
        return list(self._records.values())

    def __call__(self, event: TuningEvent) -> None:
        match event:
            case UnprovenLeft() | KeptFromInside() | FilesPutBack() | WaitingForQuiet() | TrialDisturbed():
                self._tell(event)
            case WalkMoved():
                self._move(event)
            case TrialStarted():
                self._start(event)
            case TrialProgress():
                self._show(event)
            case TrialFinished():
                self._end()
                self._records[event.record.trial] = event.record
                self._tell_launch(event.record)

    def _move(self, event: WalkMoved) -> None:
        first, self.walk = self.walk is None, event.walk
        self._records |= {record.trial: record for record in event.records}
        if first:
            self._tell_plan()
        baseline = event.walk.baseline
        if baseline is not None and baseline.trial != self._baseline_told:
            self._baseline_told = baseline.trial
            self._tell_baseline(baseline)
        for outcome in event.walk.phases:
            self._tell_phase(outcome)
        for option in event.walk.options[self._options_told :]:
            self._tell_option(option)
        self._options_told = len(event.walk.options)

    def _tell_plan(self) -> None:
        asked = self._asked
        self._say(plan_text(asked.plan.name, len(asked.phases), len(asked.plan.phases)))
        for line in outlined(asked, self._experiment):
            self._say(f"  {line}", hang=5)
        limits = self._experiment.limits
        named = [f"{name} {limit.text}" for name, limit in (("RAM", limits.ram), ("VRAM", limits.vram)) if limit]
        self._say(f"limits: {' and '.join(named) if named else 'none but what leaves the machine usable'}")
        if self.walk is None or self.walk.baseline is None or self.walk.proposal is None:
            self._tell_left()  # else it follows the baseline

    def _tell_left(self) -> None:
        for line in self._expected().lines:
            self._say(line, hang=2)

    def _tell_baseline(self, baseline: TrialRecord) -> None:
        made = self._seen().rate(baseline.trial)
        waiting = baseline.measurement.data_wait_fraction
        wait = f", waiting for data {waiting:.0%} of the time" if made is not None and waiting is not None else ""
        status = f"{baseline.status.value.replace('_', ' ')}: {baseline.detail or 'no detail is known'}"
        wait += ", on batches that lay ready before: it would not last" if baseline.measurement.fed_from_stock else ""
        what = f"{rate(made)} samples/s{marked(baseline)}{wait}" if made is not None else status
        self._say(f"your own settings: {what} (trial {baseline.trial})")
        if self.walk is not None and self.walk.proposal is not None:
            self._tell_left()

    def _tell_phase(self, outcome: PhaseOutcome) -> None:
        number, walk = outcome.phase.number, self.walk
        rungs = [rung for rung in outcome.rungs if rung.state not in ("open", "interrupted")]
        # Its turn comes again: it is told beside those that are judged, and once.
        cut = [rung for rung in outcome.rungs if rung.state == "interrupted" and rung.trial not in self._cut]
        proposal = walk.proposal if walk is not None else None
        begun = bool(rungs or cut) or outcome.done or (proposal is not None and _of_phase(proposal.origin, number))
        if not begun or number in self._closed:
            return
        if number not in self._told:
            self._head(outcome, rungs)
        new = [*rungs[self._told.get(number, 0) :], *cut]
        self._cut |= {rung.trial for rung in cut}
        for line in rung_lines(new, self._seen()):
            self._tick(line)
        self._told[number] = len(rungs)
        if outcome.done:
            self._closed.add(number)
            if sum(rung.state == "kept" for rung in rungs) > 1:
                self._say(f"  {outcome.why}", hang=4)

    def _head(self, outcome: PhaseOutcome, rungs: list[PhaseRung]) -> None:
        phase = outcome.phase
        of = f" of {len(self._asked.phases)}" if phase.number else ""
        risk = risk_text(phase)
        heading = f"phase {phase.number}{of}, {phase.name}"
        if outcome.done and not rungs:
            heading += f": {outcome.why}" if outcome.why else ""
        elif risk:
            heading += f" ({risk})"
        self._say("")
        self._say(heading, hang=2)
        for line in phase.by_hand:
            self._say(f"  by hand: {line}", hang=4)

    def _tell_option(self, outcome: OptionOutcome) -> None:
        if not self._options_told and outcome is (self.walk.options[0] if self.walk is not None else None):
            self._say("")
            self._say("the plan's options")
        made = self._seen().rate(outcome.trial)
        parts = [f"predicted {predicted_text(outcome.predicted)}"] if outcome.predicted is not None else []
        if made is not None:
            busy = marked(self._records[outcome.trial]) if outcome.trial in self._records else ""
            parts.append(f"measured {rate(made)} samples/s{busy} (trial {outcome.trial})")
        elif outcome.trial is None:
            parts += unmeasured_parts(outcome)
        else:
            failed = self._records.get(outcome.trial)
            parts.append(f"{failed.status.value.replace('_', ' ')} (trial {outcome.trial})" if failed else "failed")
        self._say(f"  {outcome.option.name} {settings_text(outcome.settings)}: {'; '.join(parts)}", hang=4)

    def _tell_launch(self, record: TrialRecord) -> None:
        """A race has no steps to tick off, and takes long."""
        if record.race is None:
            return
        made = self._seen().rate(record.trial) if has_rate(record) else None
        status = f"{record.status.value.replace('_', ' ')}: {record.detail or ''}"
        what = f"{rate(made)} samples/s" if made is not None else status
        self._say(f"  {record.reason}: {what} (trial {record.trial})", hang=4)

    def _start(self, event: TrialStarted) -> None:
        self._stop()
        self._spec, self._scout = event.spec, event.scout
        if event.spec.race is not None and not self._race_told:
            self._race_told = True
            self._say("")
            self._say("confirming: the winner against what it has to beat, launched in turns")
        self._begin()
        if self._live is not None:
            self._draw_trial(f"  ▸ {self._tried()}: starting")
        elif not self._console.quiet:
            status = self._status()
            self._say(f"  {self._heading()}{f' ({status})' if status else ''}: {event.spec.reason}")

    def _show(self, event: TrialProgress) -> None:
        if self._live is not None:
            self._draw_trial(f"  ▸ {self._tried()}: {state_text(event)}")

    def _draw_trial(self, trial: str) -> None:
        told = " · ".join(part for part in (self._heading(), self._status(" · ")) if part)
        row, status = (whole_fields(line, self._console.width) for line in (trial, told))
        status.stylize("dim")
        self._draw(row, status)

    def _heading(self) -> str:
        """trial 3 of at most 12; where the journal has others, too: trial 31 (3 of at most 12)."""
        number, walk = self._spec.trial if self._spec is not None else 0, self.walk
        if self._scout:
            return f"scout run before trial {number}"
        if walk is None:
            return f"trial {number}"
        left, racing = self._expected(), walk.stage == "confirm"
        done = self._legs(walk) if racing else len(walk.trials)
        most = f"{done + 1} of at most {done + (left.race if racing else left.trials)}"
        if racing:
            return f"trial {number}, launch {most}"
        return f"trial {most}" if number == done + 1 else f"trial {number} ({most})"

    def _legs(self, walk: Walk) -> int:
        """Launches of the race so far."""
        return sum(record.race is not None and record.trial in walk.trials for record in self._records.values())

    def _tried(self) -> str:
        if self._spec is None:
            return ""
        reason = harmless(self._spec.reason)
        # The phase stands in the heading above.
        return reason.partition(", ")[2] or reason if reason.startswith("phase ") else reason

    def _status(self, between: str = ", ") -> str:
        """at most 8 min left, best so far 12.3 samples/s."""
        walk = self.walk
        if walk is None or self._scout:
            return ""
        left = self._expected().left_text
        best = self._seen().rate(walk.best.trial) if walk.best is not None else None
        told = f"best so far {rate(best)} samples/s" if best is not None and walk.stage != "confirm" else ""
        return between.join(part for part in (left, told) if part)

    def _expected(self) -> Expected:
        assert self.walk is not None
        records, phases = list(self._records.values()), self._asked.phases
        return expected(
            self.walk,
            self._experiment.window,
            records,
            phases,
            confirm=self._asked.confirm,
            scout=scout_to_come(self.walk, phases, self._experiment, records),
        )

    def _seen(self) -> Measured:
        walk = self.walk
        own = [record for record in self._records.values() if walk is not None and record.trial in walk.trials]
        rated = [record for record in own if has_rate(record)] or [one for one in own if one.on_busy_machine]
        return Measured(self._records, walk.baseline if walk is not None else None, metric_of(rated))

    def _tick(self, line: Line) -> None:
        if self._console.is_terminal:
            self._console.print(line_grid([line]))
            return
        told = f"{line.turned}: {line.told}" if line.told else line.turned
        self._say(f"  {line.sign} {line.word} {told}")

    def _say(self, text: str, *, hang: int = 0) -> None:
        """Of a terminal the width is kept, and what is wrapped stands below its own beginning."""
        plain = Text(harmless(text, 1000))
        if self._console.is_terminal and hang:
            for row, part in enumerate(plain.wrap(self._console, max(20, self._console.width - hang))):
                self._console.print(Text(" " * hang * (row > 0)) + part)
        else:
            self._console.print(plain, soft_wrap=not self._console.is_terminal)


def _of_phase(origin: str, number: int) -> bool:
    return origin.startswith(f"phase:{number}:") and origin != "phase:0:baseline"


def state_text(event: TrialProgress) -> str:
    if event.phase == "starting":
        return f"starting, {event.seconds:.0f} s"
    memory = f" · RAM {bytes_(event.ram_bytes)}" if event.ram_bytes else ""
    count = f"{event.steps} of {event.steps_wanted}" if event.steps <= event.steps_wanted else f"{event.steps}"
    head = f"{count} steps · {event.seconds:.0f} s"
    if event.phase == "ending":
        return f"{head} · ending the training"
    made = event.provisional.samples_per_s if event.provisional is not None else None
    return f"{head} · so far {rate(made)} samples/s{so_far_mark(event)}{memory}" if made is not None else head + memory
