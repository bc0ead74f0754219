"""A study in words: what to do, why, what next, and what went wrong. The same for a terminal and for documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vtune.analysis.choose import same_cache
from vtune.analysis.diagnose import OTHERS_CORES
from vtune.analysis.fit import needs_text, relaxed
from vtune.domain.choice import Choice
from vtune.domain.numbers import rate, times, trials_text
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.reporting.adopt import saving, settings_text, settings_to_adopt
from vtune.reporting.study_report import StudyReport, gpu_was_seen

# Trials that are named one by one; the table has them all.
MOST_NAMED = 3

# How a table calls the chosen one.
BEST = "best"

# The verdict, why, what next.
Words = tuple[str, list[str], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    verdict: str
    why: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Trials that ended alike, with what one of them said last."""

    status: TrialStatus
    detail: str
    trials: tuple[int, ...]
    last_words: tuple[str, ...]


def summarize(report: StudyReport) -> Summary:
    choice = report.choice
    if not report.records:
        words: Words = ("no trial was recorded yet", [], ["measure the current settings with vtune probe"])
    elif choice.best is not None:
        words = _chosen(report, choice.best)
    elif choice.over:
        words = _over_limits(choice)
    else:
        words = _nothing_measured(report.records)
    verdict, why, next_ = words
    return Summary(
        verdict=verdict,
        why=tuple(dict.fromkeys(why)),
        next=tuple(dict.fromkeys(next_)),
        notes=(*report.journal_notes, *choice.remarks, *_notes(report.records)),
    )


def failures(records: Iterable[TrialRecord]) -> list[Failure]:
    """Alike ones together: twenty trials out of memory are one story."""
    groups: dict[tuple[TrialStatus, str], list[TrialRecord]] = {}
    for record in records:
        if record.status is not TrialStatus.COMPLETED:
            groups.setdefault((record.status, record.detail or "no detail is known"), []).append(record)
    return [
        Failure(
            status=status,
            detail=detail,
            trials=tuple(record.trial for record in group),
            last_words=next((words for record in group if (words := _last_words(record))), ()),
        )
        for (status, detail), group in groups.items()
    ]


def outcome(record: TrialRecord, choice: Choice) -> str:
    """One or two words for a table."""
    if choice.best is not None and record.trial == choice.best.trial:
        return f"{BEST}, baseline" if _is_baseline(record, choice) else BEST
    if _is_baseline(record, choice) and record.trial not in choice.over:
        return "baseline"
    lost = next((lost for lost in choice.lost if lost.trial == record.trial), None)
    if lost is None or lost.reason == "failed":
        return record.status.value.replace("_", " ")
    if lost.reason == "over_limit":
        return "over the " + " and ".join(excess.memory for excess in choice.over[record.trial]) + " limit"
    return {"other_cache": "other cache", "not_lasting": "not lasting", "no_rate": "no rate"}.get(
        lost.reason, lost.reason
    )


def _is_baseline(record: TrialRecord, choice: Choice) -> bool:
    return choice.baseline is not None and record.trial == choice.baseline.trial


def _chosen(report: StudyReport, best: TrialRecord) -> Words:
    choice, baseline = report.choice, report.choice.baseline
    assert baseline is not None
    own = "your own settings" if choice.baseline_is_own else "the first trial"
    why = [_rate_line(record, choice) for record in _both(best, baseline)]
    next_: list[str] = []
    others = [lost for lost in choice.lost if lost.reason in ("tie", "slower", "over_limit", "other_cache")]
    if best.trial != baseline.trial:
        turned = settings_text(settings_to_adopt(report))
        if choice.speedup is not None:
            gain = f"{times(choice.speedup.value, choice.speedup.ci95)} the rate of {own} (trial {baseline.trial})"
        else:
            gain = f"not comparable with {own} (trial {baseline.trial})"
        saved = saving(report)
        verdict = f"adopt {turned} (trial {best.trial}): {gain}" + (f", {saved}" if saved else "")
    elif not others:
        what = "your own settings make" if choice.baseline_is_own else f"{_asked(best)} makes"
        over = " over the whole run" if choice.ranked_by == "samples_per_s_whole_run" else ""
        verdict = f"{what} {rate(_ranked(best, choice))} samples/s{over} (trial {best.trial}): {best.diagnosis.verdict}"
        if len(report.records) == 1 or not choice.tie:
            why.append("there is nothing to compare it with yet")
    else:
        verdict = f"keep {own} (trial {best.trial}): {_nothing_better(choice)}"
    why += _why_so(report, best, baseline)
    next_ += _next(report, best, baseline)
    return verdict, why, [*next_, *best.diagnosis.next]


def _both(best: TrialRecord, baseline: TrialRecord) -> list[TrialRecord]:
    return [best] if best.trial == baseline.trial else [best, baseline]


def _nothing_better(choice: Choice) -> str:
    nearest = max(choice.ratios.items(), key=lambda item: item[1].value, default=None)
    reasons = {lost.trial: lost.reason for lost in choice.lost}
    if nearest is None:
        return "nothing else could be measured"
    trial, ratio = nearest
    said = f"trial {trial} comes to {times(ratio.value, ratio.ci95)}"
    match reasons.get(trial):
        case "tie" | "repeated":
            return f"no other is distinguishably faster ({said})"
        case "over_limit":
            return f"what is faster is over a limit ({said})"
        case "other_cache":
            return f"what looks faster read its data from another cache ({said}, not comparable)"
        case "not_lasting":
            return f"what looks faster lived on batches that lay ready ({said}, not lasting)"
        case _:
            return f"all others are slower ({said})"


def _why_so(report: StudyReport, best: TrialRecord, baseline: TrialRecord) -> list[str]:
    choice, lines = report.choice, []
    if len(choice.ratios) > 1:
        lines.append(
            f"{len(choice.ratios)} trials are compared with trial {baseline.trial}: the intervals of the ratios are"
            " wide enough to hold for all of them together"
        )
    if choice.tie:
        lines.append(f"{trials_text(choice.tie)} cannot be told from trial {best.trial} by what was measured")
    for lost in choice.lost:
        ratio = choice.ratios.get(lost.trial)
        faster = ratio is not None and best.trial != lost.trial and _faster_than(lost.trial, best, choice)
        if ratio is not None and faster and lost.reason in ("over_limit", "other_cache", "not_lasting"):
            lines.append(f"trial {lost.trial} comes to {times(ratio.value, ratio.ci95)}, but {_uncapped(lost.why)}")
    if not same_cache(best, baseline):
        lines.append(
            f"trial {baseline.trial} read its data {baseline.measurement.cache}, trial {best.trial}"
            f" {best.measurement.cache}: their rates answer different questions"
        )
    for record in _both(best, baseline):
        if not record.measurement.steady:
            because = f": {record.measurement.unsteady_because}" if record.measurement.unsteady_because else ""
            lines.append(f"trial {record.trial} was not shown to be steady{because}")
    others = baseline.measurement.others_cores or 0.0
    if best.trial != baseline.trial and others >= OTHERS_CORES:
        lines.append(
            f"other programs kept {others:.1f} cores busy during trial {baseline.trial}: it may be faster than it looks"
        )
    failed = [record for record in report.records if record.status is not TrialStatus.COMPLETED]
    if failed:
        lines.append(_count_of(failed))
    return [*lines, f"trial {best.trial}: {best.diagnosis.verdict}", *best.diagnosis.why]


def _next(report: StudyReport, best: TrialRecord, baseline: TrialRecord) -> list[str]:
    choice, lines = report.choice, []
    if not choice.baseline_is_own:
        lines.append("measure the training as it is (vtune probe without --set): without it, nobody knows what is won")
    if any(lost.reason == "other_cache" for lost in choice.lost) or not same_cache(best, baseline):
        lines.append("measure the baseline again: by now its data is read as that of the later trials was")
    rivals = [trial for trial in choice.tie if choice.ratios[trial].value > 1] if best.trial == baseline.trial else []
    if rivals:
        likely = sorted(rivals, key=lambda trial: -choice.ratios[trial].value)[:MOST_NAMED]
        lines.append(f"measure {trials_text(sorted(likely))} and the baseline again with --precise to tell them apart")
    faster = [trial for trial in choice.over if _faster_than(trial, best, choice)]
    for trial in faster[:MOST_NAMED]:
        options = " ".join(relaxed(excess) for excess in choice.over[trial])
        lines.append(f"if the machine allows it, {options} lets trial {trial} in")
    return lines


def _over_limits(choice: Choice) -> Words:
    assert choice.nearest is not None
    over = choice.over[choice.nearest]
    options = " ".join(relaxed(excess) for excess in over)
    verdict = f"no trial fits the limits; trial {choice.nearest} is nearest: {options} lets it in"
    why = [
        f"trial {trial}: {'; '.join(needs_text(excess) for excess in excesses)}"
        for trial, excesses in list(choice.over.items())[:MOST_NAMED]
    ]
    if len(choice.over) > MOST_NAMED:
        why.append(f"and {len(choice.over) - MOST_NAMED} more over a limit")
    return verdict, why, ["try settings that need less: fewer workers, a smaller batch, less prefetching"]


def _nothing_measured(records: Sequence[TrialRecord]) -> Words:
    failed = [record for record in records if record.status is not TrialStatus.COMPLETED]
    if not failed:
        one = records[0]
        return f"no rate could be measured: {one.diagnosis.verdict}", list(one.diagnosis.why), list(one.diagnosis.next)
    verdict = _count_of(failed)
    if len(failed) == len(records):
        whole = "the trial did not complete" if len(records) == 1 else f"none of {len(records)} trials completed"
        verdict = f"{whole}: {_statuses(failed)}"
    why = [f"{trials_text(failure.trials)}: {failure.detail}" for failure in failures(failed)[:MOST_NAMED]]
    return verdict, why, [line for record in failed for line in record.diagnosis.next][: MOST_NAMED * 2]


def _count_of(failed: Sequence[TrialRecord]) -> str:
    return f"{len(failed)} {'trial' if len(failed) == 1 else 'trials'} did not complete: {_statuses(failed)}"


def _statuses(failed: Sequence[TrialRecord]) -> str:
    counts = Counter(record.status.value.replace("_", " ") for record in failed).most_common()
    return counts[0][0] if len(failed) == 1 else ", ".join(f"{count} {status}" for status, count in counts)


def _rate_line(record: TrialRecord, choice: Choice) -> str:
    measured, interval = record.measurement, record.measurement.samples_per_s_ci95
    spread = f" ({rate(interval[0])} to {rate(interval[1])}, 95 %)" if interval else " (no interval)"
    whole = ""
    if choice.ranked_by == "samples_per_s_whole_run":
        whole = f", {rate(measured.samples_per_s_whole_run)} over the whole run"
    kind = " (your own settings)" if _is_baseline(record, choice) and choice.baseline_is_own else ""
    return f"trial {record.trial}{kind} makes {rate(measured.samples_per_s)} samples/s{spread}{whole}"


def _ranked(record: TrialRecord, choice: Choice) -> float | None:
    if choice.ranked_by == "samples_per_s_whole_run":
        return record.measurement.samples_per_s_whole_run
    return record.measurement.samples_per_s


def _faster_than(trial: int, best: TrialRecord, choice: Choice) -> bool:
    own = choice.ratios.get(best.trial)
    return trial in choice.ratios and choice.ratios[trial].value > (own.value if own is not None else 1.0)


def _asked(record: TrialRecord) -> str:
    return settings_text(dict(record.asked or {})) or f"trial {record.trial}"


def _uncapped(sentence: str) -> str:
    """What it came to is said already."""
    return sentence.partition(", but ")[2] or sentence


def _notes(records: Sequence[TrialRecord]) -> list[str]:
    """Each note once, with the trials that it stands in."""
    lines = [] if gpu_was_seen(records) or not records else ["no GPU was seen: what needs one is not known"]
    told: dict[str, list[int]] = {}
    for record in records:
        for note in record.notes:
            told.setdefault(note, []).append(record.trial)
        for gpu in record.measurement.gpus:
            for metric, because in gpu.unknown.items():
                told.setdefault(f"{metric} of GPU {gpu.index} is not known: {because}", []).append(record.trial)
    everywhere = len(records)
    return lines + [
        note if len(trials) == everywhere else f"{trials_text(trials, MOST_NAMED)}: {note}"
        for note, trials in told.items()
    ]


def _last_words(record: TrialRecord) -> tuple[str, ...]:
    words = record.evidence.get("last_words")
    return tuple(map(str, words)) if isinstance(words, list | tuple) else ()
