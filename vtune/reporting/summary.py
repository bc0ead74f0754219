"""A study in words: what to do, why, what next, and what went wrong. The same for a terminal and for documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from vtune.analysis.comparable import contradicting, has_rate, same_cache, settings_of
from vtune.analysis.doubts import is_calm
from vtune.analysis.fit import room_text
from vtune.analysis.lost import steps_text
from vtune.analysis.others_words import MARK, MEASURE_AGAIN, use_text
from vtune.analysis.repeated_words import how_to_mend, in_present_settings
from vtune.domain.choice import Choice, Lost, RankedBy
from vtune.domain.effects import Scalar
from vtune.domain.numbers import rate, tells_nothing, times, trials_text
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.reporting.adopt import saving, settings_to_adopt
from vtune.reporting.commands import probe_command
from vtune.reporting.failures import Failure, count_of_failed, failure_line, failures, statuses_text
from vtune.reporting.infeasible import RuledOut, nothing_feasible, ruled_out, why_ruled_out
from vtune.reporting.next_steps import MOST_NAMED, looks_faster, next_steps
from vtune.reporting.none_chosen import NoneChosen, why_none_chosen
from vtune.reporting.phase_words import nothing_to_gain_text
from vtune.reporting.study_report import StudyReport, gpu_was_seen
from vtune.reporting.words import repeats_lines, settings_text, vram_sources

# How a table calls the chosen one.
BEST = "best"
# What a rate that trials are ranked by holds besides the steps.
OVER: Mapping[RankedBy, str] = {
    "samples_per_s_whole_run": " over the whole run",
    "samples_per_s_epoch": " over an epoch",
    "samples_per_s": "",
}

# Why what looks faster does not win.
EXCUSED = ("over_limit", "out_of_room", "other_cache", "not_lasting", "too_short")
# Where more workers were slower, they were not so for want of these.
FOLLOW_WORKERS = ("prefetch_factor", "persistent_workers")
# The verdict, why, what next.
Words = tuple[str, list[str], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    verdict: str
    why: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def summarize(report: StudyReport) -> Summary:
    choice = report.choice
    said, why, next_ = _chosen(report, choice.best) if choice.best is not None else _none_chosen(report)
    return Summary(
        verdict=said,
        why=tuple(dict.fromkeys(why)),
        next=tuple(dict.fromkeys(next_)),
        notes=(
            *([report.what_if] if report.what_if is not None else []),
            *report.journal_notes,
            *_notes(report.records, [remark for remark in choice.remarks if remark not in why]),
        ),
    )


def _none_chosen(report: StudyReport) -> Words:
    choice, records = report.choice, report.compared
    match why_none_chosen(records, choice):
        case NoneChosen.LIMITS:
            return _over_limits(report)
        case NoneChosen.ROOM:
            return _without_room(records, choice)
        case NoneChosen.BUSY:
            return _on_busy_machine([record for record in records if record.on_busy_machine])
        case NoneChosen.NO_RATE:
            return _nothing_measured(records)
        case _:
            return "no trial was recorded yet", [], ["measure the current settings with vtune probe"]


def why_beyond(summary: Summary, told: Iterable[Failure]) -> tuple[str, ...]:
    """Without what stands beside the last words of those that failed."""
    said = {failure_line(failure) for failure in told}
    return tuple(line for line in summary.why if line not in said)


def outcomes(choice: Choice) -> Callable[[TrialRecord], str]:
    """One or two words for a table, of each trial in its turn: a long journal's is gone through once."""
    lost = {one.trial: one for one in choice.lost}
    return lambda record: _outcome(record, choice, lost.get(record.trial))


def _outcome(record: TrialRecord, choice: Choice, lost: Lost | None) -> str:
    if choice.best is not None and record.trial == choice.best.trial:
        return f"{BEST}, baseline" if _is_baseline(record, choice) else BEST
    if _is_baseline(record, choice) and record.trial not in (*choice.over, *choice.cramped):
        return "baseline"
    if lost is not None and lost.reason == "out_of_room":
        return "out of room"
    if lost is None or lost.reason == "failed":
        return record.status.value.replace("_", " ")
    if lost.reason == "over_limit":
        return "over the " + " and ".join(excess.memory for excess in choice.over[record.trial]) + " limit"
    return {
        "other_cache": "other cache",
        "other_training": "another training",
        "busy_machine": MARK,
        "not_lasting": "not lasting",
        "too_short": "too short",
        "no_rate": "no rate",
        "beaten": "ended early",
        "full_run": "full run",
        # Than the best: its ratio may well be above 1.
        "slower": "behind the best",
    }.get(lost.reason, lost.reason)


def _is_baseline(record: TrialRecord, choice: Choice) -> bool:
    return choice.baseline is not None and record.trial == choice.baseline.trial


def _chosen(report: StudyReport, best: TrialRecord) -> Words:
    choice, baseline = report.choice, report.choice.baseline
    assert baseline is not None
    own = "your own settings" if choice.baseline_is_own else "the first trial"
    why = [_rate_line(record, choice) for record in _both(best, baseline)]
    next_: list[str] = []
    others = [
        lost
        for lost in choice.lost
        if lost.reason in ("tie", "slower", "beaten", "over_limit", "out_of_room", "other_cache", "too_short")
    ]
    if best.trial != baseline.trial:
        turned = settings_text(settings_to_adopt(report))
        if choice.speedup is not None:
            gain = f"{times(choice.speedup.value, choice.speedup.ci95)} the rate of {own} (trial {baseline.trial}"
            gain += f", by {rounds} rounds of a race)" if (rounds := choice.paired_rounds.get(best.trial)) else ")"
        else:
            gain = f"not comparable with {own} (trial {baseline.trial})"
        saved = saving(report)
        verdict = f"adopt {turned} (trial {best.trial}{_reserve(choice)}): {gain}" + (f", {saved}" if saved else "")
    elif not others:
        what = "your own settings make" if choice.baseline_is_own else f"{_asked(best)} makes"
        over = OVER[choice.ranked_by] if choice.ranked_by is not None else ""
        verdict = (
            f"{what} {rate(ranked_rate(best, choice))} samples/s{over} (trial {best.trial}): {best.diagnosis.verdict}"
        )
        if len(report.records) == 1 or not choice.tie:
            why.append("there is nothing to compare it with yet")
    else:
        verdict = f"keep {own} (trial {best.trial}): {_nothing_better(choice, report.compared, baseline)}"
    if best.trial == baseline.trial and (idle := nothing_to_gain_text(report)) is not None:
        rest = f"; {_nothing_better(choice, report.compared, baseline)}" if others else ""
        verdict = f"keep {own} (trial {best.trial}): {idle}{rest}"
    if (found := report.repeats_now) is not None:
        verdict += f"; {in_present_settings(found)}"
        next_.append(how_to_mend(found))
    why += [*_beside_another_training(choice, best), *_why_so(report, best, baseline)]
    next_ += next_steps(report, best, baseline)
    return verdict, why, [*next_, *_not_tried(best, report.compared)]


def _not_tried(best: TrialRecord, records: Sequence[TrialRecord]) -> list[str]:
    """Advice as it was given when its trial ended: without settings that a trial has answered since."""
    cut_short = (one.trial for one in records if one.status is TrialStatus.INTERRUPTED or one.filled_its_disk)
    unanswered = set(cut_short) - {one.trial for one in records if has_rate(one)}
    told = [one for one in records if one.trial not in unanswered]
    return [
        one.text
        for one in best.diagnosis.advice
        if not one.asks or not any(_answers(record, one.asks, best) for record in told)
    ]


def _answers(record: TrialRecord, asked: Mapping[str, Scalar], best: TrialRecord) -> bool:
    """It was asked for just this, or ran with it and with all else as the best trial did."""
    if dict(record.asked or {}) == dict(asked):
        return True
    if any(record.settings.get(name) != value for name, value in asked.items()):
        return False
    more = FOLLOW_WORKERS if "workers" in asked else ()
    return not set(contradicting(best.settings, record.settings)) - {*asked, *more}


def _reserve(choice: Choice) -> str:
    """What keeps a winner from being a result."""
    return f"{', provisional' if choice.provisional else ''}{', unconfirmed' if choice.unconfirmed else ''}"


def _both(best: TrialRecord, baseline: TrialRecord) -> list[TrialRecord]:
    return [best] if best.trial == baseline.trial else [best, baseline]


def _nothing_better(choice: Choice, records: Sequence[TrialRecord], baseline: TrialRecord) -> str:
    """Another launch of the same settings is no rival of them, and what comes to less does not look faster."""
    rivals = {record.trial for record in records if settings_of(record) != settings_of(baseline)}
    ratios = {trial: ratio for trial, ratio in choice.ratios.items() if trial in rivals}
    nearest = max(ratios.items(), key=lambda item: item[1].value, default=None)
    reasons = {lost.trial: lost.reason for lost in choice.lost}
    if nearest is None:
        return "nothing else could be measured"
    fitting = {trial: ratio for trial, ratio in ratios.items() if trial not in (*choice.over, *choice.cramped)}
    if nearest[1].value <= 1 and fitting:
        nearest = max(fitting.items(), key=lambda item: item[1].value)
    trial, ratio = nearest
    raced = f" by {rounds} rounds of a race" if (rounds := choice.paired_rounds.get(trial)) else ""
    comes = "is" if tells_nothing(ratio.ci95) else "comes to"
    said = f"trial {trial} {comes} {times(ratio.value, ratio.ci95)}{raced}"
    match reasons.get(trial):
        case "tie" | "repeated":
            return f"no other is distinguishably faster ({said})"
        case "slower" | "beaten":
            return f"all others are slower ({said})"
        case "over_limit" | "out_of_room" as why if ratio.value <= 1:
            lacking = "is over a limit" if why == "over_limit" else "has no room for it"
            return f"what else was measured {lacking}, and does not look faster ({said})"
        case _ if ratio.value <= 1:
            return f"no other looks faster ({said})"
        case "over_limit":
            return f"what is faster is over a limit ({said})"
        case "out_of_room":
            return f"what is faster has no room for it ({said})"
        case "other_cache":
            return f"what looks faster read its data from another cache ({said}, not comparable)"
        case "not_lasting":
            return f"what looks faster lived on batches that lay ready ({said}, not lasting)"
        case "too_short":
            return f"what looks faster rests on too few steps ({said})"
        case _:
            return f"no other is shown to be faster ({said})"


def _beside_another_training(choice: Choice, best: TrialRecord) -> list[str]:
    """What there is to be had without changing the training, where the winner changes it."""
    same, over = choice.best_same, choice.over_same.get(best.trial)
    if same is None or over is None or best.trial not in choice.other_trainings:
        return []
    raced = f", by {choice.over_same_rounds} rounds of a race" if choice.over_same_rounds else ""
    return [
        f"the best that trains as yours does: {_asked(same)}, {rate(ranked_rate(same, choice))} samples/s"
        f" (trial {same.trial}); trial {best.trial}, another training, makes {times(over.value, over.ci95)} of it"
        f"{raced}"
    ]


def _why_so(report: StudyReport, best: TrialRecord, baseline: TrialRecord) -> list[str]:
    choice = report.choice
    # A comparison is judged by them, whichever trial they disturbed: the end of a long list would hide it.
    lines = [*choice.neighbours] if choice.ratios else []
    if len(choice.ratios) > 1:
        lines.append(
            f"{len(choice.ratios)} trials are compared with trial {baseline.trial}: the intervals of the ratios are"
            " wide enough to hold for all of them together"
        )
    if choice.tie:
        lines.append(f"{trials_text(choice.tie)} cannot be told from trial {best.trial} by what was measured")
    for lost in choice.lost:
        ratio = choice.ratios.get(lost.trial)
        faster = ratio is not None and best.trial != lost.trial and looks_faster(lost.trial, best, choice)
        if ratio is not None and faster and lost.reason in EXCUSED and not tells_nothing(ratio.ci95):
            lines.append(f"trial {lost.trial} comes to {times(ratio.value, ratio.ci95)}, but {_uncapped(lost.why)}")
    if not same_cache(best, baseline):
        lines.append(
            f"trial {baseline.trial} read its data {baseline.measurement.cache}, trial {best.trial}"
            f" {best.measurement.cache}: their rates answer different questions"
        )
    elif best.measurement.cache != baseline.measurement.cache:
        unknown, known = sorted((best, baseline), key=lambda record: record.measurement.cache != "unknown")
        lines.append(
            f"whether trial {unknown.trial} read its data cold or warm is not known, trial {known.trial} read it"
            f" {known.measurement.cache}: a part of the gain may be the cache's"
        )
    if choice.unconfirmed:
        lines.append(
            f"{trials_text(choice.unconfirmed)} {'was' if len(choice.unconfirmed) == 1 else 'were'} launched only once:"
            " two launches of the same settings differ, and a gap like this one has to be seen twice"
        )
    for record in _both(best, baseline):
        if record.trial in choice.provisional:
            lines.append(f"trial {record.trial} rests on {steps_text(record)}: what follows from it is provisional")
        elif not is_calm(record.measurement):
            because = f": {record.measurement.unsteady_because}" if record.measurement.unsteady_because else ""
            lines.append(f"trial {record.trial} was not shown to be steady{because}")
    failed = [record for record in report.compared if record.status is not TrialStatus.COMPLETED]
    if failed:
        lines.append(count_of_failed(failed))
    return [*lines, f"trial {best.trial}: {best.diagnosis.verdict}", *best.diagnosis.why]


def _over_limits(report: StudyReport) -> Words:
    machine = report.machine
    total = machine.ram_bytes if machine is not None else None
    found = ruled_out(report.compared, report.choice, report.limits, total)
    why = [why_ruled_out(one) for one in found[:MOST_NAMED]]
    if len(found) > MOST_NAMED:
        why.append(f"and {len(found) - MOST_NAMED} more over a limit or out of memory")
    next_ = ["try settings that need less: fewer workers, a smaller batch, less prefetching"]
    if found and all(_ended_at_the_start(one) for one in found):
        # Relaxed by what was seen, it would fail a few MiB later, again and again.
        probe = probe_command(report, {})
        next_ = [f"none came as far as its first batch: {probe} --ram-limit 95% tells what the training needs"]
    return nothing_feasible(found), why, next_


def _ended_at_the_start(one: RuledOut) -> bool:
    return one.at_least and [over.memory for over in one.over] == ["RAM"] and one.record.measurement.startup_s is None


def _without_room(records: Sequence[TrialRecord], choice: Choice) -> Words:
    cramped = [record for record in records if record.trial in choice.cramped]
    why = [f"trial {record.trial}: {room_text(record)}" for record in cramped[:MOST_NAMED]]
    verdict = f"no trial has room enough: {trials_text(choice.cramped)} ran at the edge of it"
    return verdict, why, ["a smaller batch, with accumulation where the effective batch has to stay"]


def _on_busy_machine(busy: Sequence[TrialRecord]) -> Words:
    """Nobody chooses by them: a report is no more sure than its trials."""
    which = trials_text([record.trial for record in busy])
    why = [
        f"trial {record.trial}: {use_text(record.measurement.others, 'used')} while it ran"
        for record in busy[:MOST_NAMED]
        if record.measurement.others is not None
    ]
    return f"no verdict: {which} ran on a busy machine", why, [MEASURE_AGAIN]


def _nothing_measured(records: Sequence[TrialRecord]) -> Words:
    failed = [record for record in records if record.status is not TrialStatus.COMPLETED]
    if not failed:
        one = records[0]
        return f"no rate could be measured: {one.diagnosis.verdict}", list(one.diagnosis.why), list(one.diagnosis.next)
    verdict = count_of_failed(failed)
    if len(failed) == len(records):
        whole = "the trial did not complete" if len(records) == 1 else f"none of {len(records)} trials completed"
        verdict = f"{whole}: {statuses_text(failed)}"
    why = [failure_line(failure) for failure in failures(failed)[:MOST_NAMED]]
    return verdict, why, [line for record in failed for line in record.diagnosis.next][: MOST_NAMED * 2]


def _rate_line(record: TrialRecord, choice: Choice) -> str:
    measured, interval = record.measurement, record.measurement.samples_per_s_ci95
    spread = f" ({rate(interval[0])} to {rate(interval[1])}, 95 %)" if interval else " (no interval)"
    whole = ""
    if choice.ranked_by is not None and choice.ranked_by != "samples_per_s":
        whole = f", {rate(ranked_rate(record, choice))}{OVER[choice.ranked_by]}"
    kind = " (your own settings)" if _is_baseline(record, choice) and choice.baseline_is_own else ""
    return f"trial {record.trial}{kind} makes {rate(measured.samples_per_s)} samples/s{spread}{whole}"


def ranked_rate(record: TrialRecord, choice: Choice) -> float | None:
    """The rate that trials are ranked by: their ratios are of it, and so is what a walk tells of its steps."""
    value: float | None = getattr(record.measurement, choice.ranked_by or "samples_per_s")
    return value


def _asked(record: TrialRecord) -> str:
    return settings_text(dict(record.asked or {})) or f"trial {record.trial}"


def _uncapped(sentence: str) -> str:
    """What it came to is said already."""
    return sentence.partition(", but ")[2] or sentence


def _notes(records: Sequence[TrialRecord], remarks: Sequence[str]) -> list[str]:
    """Each note once, with the trials that it stands in. What most trials say goes before the remarks on the comparison
    (that the GPU's numbers are not validated, for one): of a long list, a terminal shows the beginning."""
    lines = [] if gpu_was_seen(records) or not records else ["no GPU was seen: what needs one is not known"]
    told: dict[str, list[int]] = {}
    for record in records:
        for note in dict.fromkeys((*record.notes, *repeats_lines(record))):
            told.setdefault(note, []).append(record.trial)
        for source in vram_sources(record):
            told.setdefault(f"VRAM peaks are as told by {source}", []).append(record.trial)
    everywhere = len(records)
    often = [note for note, trials in told.items() if 2 * len(trials) > everywhere]
    seldom = [note for note in told if note not in often]

    def line(note: str) -> str:
        trials = told[note]
        return note if len(trials) == everywhere else f"{trials_text(trials, MOST_NAMED)}: {note}"

    return [*lines, *map(line, often), *remarks, *map(line, seldom)]
