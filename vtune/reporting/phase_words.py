"""Phases in words, the same for a terminal and for documents: what is tried, what came of it, what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vtune.analysis.another_batch import AnotherBatch, another_batch
from vtune.analysis.others_words import MARK
from vtune.analysis.race import DELTA, EXTRA_ROUNDS, LEAST_ROUNDS, ROUNDS
from vtune.analysis.walked import (
    chosen_though_rolled_back,
    kept_though_not_chosen,
    nothing_to_gain,
    pays_back_after_s,
)
from vtune.domain.choice import Choice, RankedBy
from vtune.domain.effects import Scalar
from vtune.domain.numbers import bytes_, rate, seconds, times_of, trials_text
from vtune.domain.phases import Missed, OptionOutcome, Phase, PhaseRung, RungValue, Times, Walk
from vtune.domain.prediction import Prediction
from vtune.domain.record import TrialRecord
from vtune.reporting.study_report import StudyReport
from vtune.reporting.words import marked, setting_word, settings_text

# Of two contestants: the user's own settings and the winner.
LEAST_OF_A_RACE, MOST_OF_A_RACE = 2 * LEAST_ROUNDS, 2 * (ROUNDS + EXTRA_ROUNDS)
# Never by colour, and never by a sign alone: what cannot show the sign still has the word.
STATES: Mapping[str, tuple[str, str]] = {
    "kept": ("✓", "kept"),
    "rejected": ("✗", "rolled back"),
    "undecided": ("?", "not decided"),
    "skipped": ("–", "skipped"),
    "open": ("·", "not tried yet"),
    "interrupted": ("!", "interrupted"),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """The trials that are known, to tell of a step what it made."""

    records: Mapping[int, TrialRecord]
    baseline: TrialRecord | None = None
    ranked_by: RankedBy | None = None

    def rate(self, trial: int | None) -> float | None:
        record = self.records.get(trial) if trial is not None else None
        value: float | None = getattr(record.measurement, self.ranked_by or "samples_per_s") if record else None
        return value or None

    def on_busy_machine(self, trial: int) -> bool:
        return trial in self.records and self.records[trial].on_busy_machine

    def another_batch(self, trial: int | None) -> str | None:
        """Whether it is another training than the user's own by its effective batch."""
        record = self.records.get(trial) if trial is not None else None
        return None if record is None else batch_text(record, self.baseline)


def measured(report: StudyReport) -> Measured:
    records = {record.trial: record for record in report.records}
    return Measured(records, report.choice.baseline, report.choice.ranked_by)


@dataclass(frozen=True, slots=True)
class Line:
    """One or several rungs that ended alike, for the same reason."""

    sign: str
    word: str
    turned: str
    # With the numbers, the reason and the trial.
    told: str


def plan_text(plan: str, up_to: int, of: int) -> str:
    if up_to >= of:
        which = f"all {of} phases" if of > 1 else "its one phase"
    else:
        which = f"phases 1 to {up_to} of {of}" if up_to > 1 else f"phase 1 of {of}"
    return f"plan {plan}, {which}"


def ladder_text(phase: Phase, *, extend: bool = False, own: Mapping[str, Scalar] | None = None) -> str:
    """workers 1 → 2 → 4 → 6, as the plan has it; `own` are the user's values, of which some are multiples."""
    rungs = [*phase.rungs, *(phase.beyond if extend else ())]
    if phase.by_model and not rungs:
        return f"{phase.knob}: the values that the model likes best, two, and up to 4 while they win"
    own = own or {}
    knobs = list(dict.fromkeys(name for rung in rungs for name in rung))
    if not knobs:
        return ""
    if len(knobs) == 1:
        return f"{knobs[0]} {' → '.join(_value(rung[knobs[0]], own.get(knobs[0])) for rung in rungs)}"
    return " → ".join(option_values(rung, own) for rung in rungs)


def risk_text(phase: Phase) -> str:
    """Empty where there is none to tell."""
    if phase.risk == "none" and not phase.risk_words:
        return ""
    return f"{phase.risk} risk{f': {phase.risk_words}' if phase.risk_words else ''}"


def option_values(settings: Mapping[str, RungValue], own: Mapping[str, Scalar]) -> str:
    return " ".join(f"{name}={_value(value, own.get(name))}" for name, value in settings.items())


def rung_lines(rungs: Sequence[PhaseRung], seen: Measured, *, open_too: bool = False) -> list[Line]:
    lines: list[Line] = []
    last: PhaseRung | None = None
    for rung in rungs:
        if rung.state == "open" and not open_too:
            continue
        if last is not None and rung.trial is None and (rung.state, rung.why) == (last.state, last.why):
            before = lines.pop()
            lines.append(replace(before, turned=f"{before.turned}, {settings_text(rung.turned)}"))
        else:
            lines.append(_line(rung, seen))
        last = rung if rung.trial is None else None
    return lines


def option_line(outcome: OptionOutcome, seen: Measured, choice: Choice) -> str:
    """What is predicted of a plan's option, and what was measured."""
    parts = [] if outcome.predicted is None else [f"predicted {predicted_text(outcome.predicted)}"]
    found = seen.records.get(outcome.trial) if outcome.trial is not None else None
    if found is None:
        return "; ".join([*parts, *unmeasured_parts(outcome)])
    made, ratio = seen.rate(found.trial), choice.ratios.get(found.trial)
    over = f", {times_of(ratio.value, ratio.ci95, 'yours')}" if ratio is not None else ""
    failed = f"{found.status.value.replace('_', ' ')}: {found.detail or 'no detail is known'}"
    told = f"measured {rate(made)} samples/s{marked(found)}{over}" if made is not None else failed
    parts.append(f"{told} (trial {found.trial})")
    parts += [lost.why for lost in choice.lost if lost.trial == found.trial and lost.reason == "over_limit"]
    parts += [outcome.why] if outcome.why else []
    another = seen.another_batch(found.trial)
    return "; ".join([*parts, *([another] if another else [])])


def unmeasured_parts(outcome: OptionOutcome) -> list[str]:
    batch = set_batch_text(outcome)
    return [why_unmeasured(outcome), *([batch] if batch is not None else [])]


def set_batch_text(outcome: OptionOutcome) -> str | None:
    """Another training, by the settings alone."""
    if outcome.batch is None:
        return None
    found = AnotherBatch(now=outcome.batch[0], then=outcome.batch[1], measured=False)
    return f"{found.text}: {found.learning_rate}"


def why_unmeasured(outcome: OptionOutcome) -> str:
    if not outcome.why:
        return "not measured"
    return outcome.why if outcome.why.startswith("not ") else f"not measured: {outcome.why}"


def batch_text(record: TrialRecord, baseline: TrialRecord | None) -> str | None:
    """In one line what a report says of the chosen one in full."""
    found = another_batch(record, baseline)
    if found is None:
        return None
    return "; ".join(part for part in (f"{found.text}: {found.learning_rate}", found.epochs) if part)


def predicted_text(predicted: Prediction) -> str:
    low, high = predicted.samples_per_s_ci95
    memory = [
        f"{bytes_(value)} of {name}"
        for name, value in (("RAM", predicted.ram_bytes), ("VRAM", predicted.vram_bytes))
        if value is not None
    ]
    needs = f", {' and '.join(memory)}" if memory else ""
    return f"{rate(predicted.samples_per_s)} samples/s ({rate(low)} to {rate(high)}, 95 %){needs}"


def missed_text(missed: Missed) -> str:
    return (
        f"by the model, {settings_text(missed.settings)} comes to {predicted_text(missed.predicted)}:"
        f" {missed.gain:.3g}× the best that was measured, and at least {missed.least_gain:.3g}×. Phases turn one knob"
        " at a time, and judge each by what the others were then"
    )


def nothing_to_gain_text(report: StudyReport) -> str | None:
    phases = report.phases
    if phases is None or phases.stage != "done" or phases.stopped is not None or phases.missed is not None:
        return None
    if not nothing_to_gain(phases.phases, report.choice):
        return None
    many = len(phases.trials)
    told = f"{many} trial{'' if many == 1 else 's'}"
    return f"nothing to gain by {plan_text(phases.plan, phases.up_to, phases.of)} ({told})"


def steps_and_choice_text(report: StudyReport) -> str | None:
    """Where the choice is another than that of the steps: they are held against what had won before them, it against
    the user's own settings."""
    best, phases = report.choice.best, report.phases
    if best is None or phases is None:
        return None
    step = chosen_though_rolled_back(phases.phases, report.choice)
    if step is not None:
        return (
            f"trial {best.trial} is chosen although it was rolled back as a step ({step.why}): of all that is within"
            f" {DELTA:.0%} of the fastest over your own settings, and not shown to be slower than it, it keeps the"
            " effective batch or asks least of the machine (RAM, then VRAM, then workers)"
        )
    kept = kept_though_not_chosen(phases.phases, report.choice)
    if not kept or phases.stage != "done":
        return None
    return (
        f"{trials_text(kept)} {'was' if len(kept) == 1 else 'were'} kept as a step, but over your own settings no gain"
        " is shown that all comparisons together leave standing, or it did not last"
    )


def stopped_text(report: StudyReport) -> str | None:
    """Without the words of the trial that ended it: they stand with its last words."""
    phases = report.phases
    if phases is None or phases.stopped is None:
        return None
    details = [record.detail for record in report.records if record.detail and record.trial in phases.trials]
    ends = [f": {detail}" for detail in details if phases.stopped.endswith(f": {detail}")]
    return phases.stopped.removesuffix(ends[0]) if ends else phases.stopped


def cost_text(spent_s: float, trials: Sequence[int], choice: Choice, *, scouted: bool = False) -> str:
    if not trials:
        return f"no trial was finished in {seconds(spent_s)}" if spent_s else "no trial was finished"
    back = pays_back_after_s(spent_s, choice)
    paid = f"; pays back after {seconds(back)} of the tuned run" if back is not None else ""
    scout = " and a scout run" if scouted else ""
    return f"{len(trials)} {'trial' if len(trials) == 1 else 'trials'}{scout} took {seconds(spent_s)}{paid}"


def launches_left(walk: Walk, *, confirm: bool) -> tuple[int, int]:
    """At the most: those of the phases, and those of the race that may follow. Each rung hangs on the one before, so at
    the least it is always the next one alone."""
    if walk.stage == "confirm":
        return 0, walk.left[1]
    race = MOST_OF_A_RACE if confirm else 0
    return max(0, walk.left[1] - race), min(race, walk.left[1])


def span_text(least_s: float, most_s: float) -> str:
    """34 s, 3 to 9 min, 1.5 to 4 h: as sure as an estimate is."""
    for size, unit in ((5400, "h"), (90, "min"), (0, "s")):
        if most_s >= size:
            scale = {"h": 3600, "min": 60, "s": 1}[unit]
            few, many = (_round(value / scale) for value in (least_s, most_s))
            return f"{many} {unit}" if few == many else f"{few} to {many} {unit}"
    return "0 s"


def left_out_text(trials: Sequence[int]) -> str:
    one = len(trials) == 1
    return (
        f"{trials_text(trials)} ran another command, config or code than the phases:"
        f" {'it is' if one else 'they are'} not compared"
    )


def not_judged(rungs: Sequence[PhaseRung]) -> Iterator[str]:
    """Criteria that nobody could judge here, each once."""
    yield from dict.fromkeys(words for rung in rungs for words in rung.not_judged)


def _line(rung: PhaseRung, seen: Measured) -> Line:
    sign, word = STATES[rung.state]
    made = seen.rate(rung.trial)
    parts = []
    if made is not None:
        expected = f" (predicted {rate(rung.predicted.samples_per_s)})" if rung.predicted is not None else ""
        busy = f" ({MARK})" if rung.trial is not None and seen.on_busy_machine(rung.trial) else ""
        parts.append(f"{rate(made)} samples/s{busy}{expected}")
    if rung.why:
        parts.append(rung.why)
    elif rung.gain is not None:
        parts.append(f"{rung.gain:.3g}× what it was")
    told = ", ".join(parts) + (f" (trial {rung.trial})" if rung.trial is not None else "")
    # Of one that is kept the walk says it itself; those that come after it carry the same batch.
    larger = rung.state != "kept" and {"batch_size", "accumulate_steps"} & set(rung.turned)
    another = seen.another_batch(rung.trial) if larger else None
    turned = settings_text({name: value for name, value in rung.turned.items() if value is not None})
    return Line(
        sign, word, turned or ", ".join(rung.turned), "; ".join([told.strip(), *([another] if another else [])])
    )


def _round(value: float) -> str:
    return f"{value:.2g}" if value < 3 else f"{value:.0f}"


def _value(value: RungValue, own: Scalar) -> str:
    if not isinstance(value, Times):
        return setting_word(value)
    if isinstance(own, int) and not isinstance(own, bool) and (own * value.factor).is_integer():
        return f"{own * value.factor:g}"
    return f"×{value.factor:g}"
