"""What to measure next, so that a comparison becomes a result: only what helps, with the commands."""

from __future__ import annotations

from collections.abc import Iterator

from vtune.analysis.advice import OTHERS_CORES
from vtune.analysis.comparable import settings_of
from vtune.analysis.fit import relaxed
from vtune.analysis.repeated_trial import found_in
from vtune.analysis.repeated_words import how_to_mend
from vtune.domain.choice import Choice
from vtune.domain.numbers import trials_text
from vtune.domain.record import TrialRecord
from vtune.reporting.adopt import settings_to_adopt
from vtune.reporting.commands import is_setting, probe_command, race_command, winner_command
from vtune.reporting.study_report import StudyReport

# Trials that are named one by one; the table has them all.
MOST_NAMED = 3
# What is measured again finds its data as warm as the warmest before it, or warmer.
WARMTH = {"cold": 0, "mixed": 1, "warm": 2}


def next_steps(report: StudyReport, best: TrialRecord, baseline: TrialRecord) -> list[str]:
    choice, lines = report.choice, []
    repeated = found_in(report.compared)
    if repeated is not None:
        lines.append(how_to_mend(repeated))
    if not choice.baseline_is_own:
        lines.append("measure the training as it is (vtune probe without --set): without it, nobody knows what is won")
    if report.repeats_now is not None:
        # Its mend comes first, and changes each of these rates: no more sure answer is one to the right question.
        return [*lines, *_to_its_end(report, best, baseline), *_relaxed(best, choice)]
    if choice.unconfirmed:
        once = [record for record in (baseline, best) if record.trial in choice.unconfirmed]
        what = "both" if len(once) == 2 else f"trial {once[0].trial}"
        lines.append(f"measure {what} once more to be sure: {' ; '.join(_again(report, record) for record in once)}")
    lines += _to_its_end(report, best, baseline)
    short = [lost.trial for lost in choice.lost if lost.reason == "too_short"]
    if short or choice.provisional:
        trials = sorted({*choice.provisional, *short})
        lines.append(f"measure {trials_text(trials, MOST_NAMED)} again with more --steps")
    lines += _from_another_cache(report, best, baseline)
    rivals = [trial for trial in choice.tie if choice.ratios[trial].value > 1] if best.trial == baseline.trial else []
    if rivals:
        likely = sorted(rivals, key=lambda trial: -choice.ratios[trial].value)[:MOST_NAMED]
        beside = [record for record in report.records if record.trial in (*likely, baseline.trial)]
        busy = any((record.measurement.others_cores or 0.0) >= OTHERS_CORES for record in beside)
        lines.append(
            f"measure {trials_text(sorted(likely))} and the baseline again with --precise"
            f"{' while nothing else runs' if busy else ''} to tell them apart"
        )
        lines.append(
            f"or launch the likeliest and the baseline in turns: {race_command(report, baseline.trial, likely[0])}"
        )
    if report.phases is not None and report.phases.missed is not None:
        missed = probe_command(report, report.phases.missed.settings)
        lines.append(f"measure what the phases missed by the model: {missed}")
    return [*lines, *_relaxed(best, choice)]


def _relaxed(best: TrialRecord, choice: Choice) -> Iterator[str]:
    faster = [trial for trial in choice.over if looks_faster(trial, best, choice)]
    for trial in faster[:MOST_NAMED]:
        options = " ".join(relaxed(excess) for excess in choice.over[trial])
        yield f"if the machine allows it, {options} lets trial {trial} in"


def _to_its_end(report: StudyReport, best: TrialRecord, baseline: TrialRecord) -> Iterator[str]:
    """Where the winner goes. Without the training's files there is nothing that it could go into."""
    turned = settings_to_adopt(report) if best.trial != baseline.trial else {}
    if report.experiment is None or not any(is_setting(*one, report.experiment) for one in turned.items()):
        return
    yield f"{winner_command(report, 'apply')} shows what that changes in your own files"
    yield f"{winner_command(report, 'launch')} runs the whole training with it, guarded"


def looks_faster(trial: int, best: TrialRecord, choice: Choice) -> bool:
    own = choice.ratios.get(best.trial)
    return trial in choice.ratios and choice.ratios[trial].value > (own.value if own is not None else 1.0)


def _from_another_cache(report: StudyReport, best: TrialRecord, baseline: TrialRecord) -> Iterator[str]:
    """A second launch reads warmer than the first, so it is the colder side that is worth measuring again."""
    lost = {lost.trial for lost in report.choice.lost if lost.reason == "other_cache"}
    apart = [
        record for record in report.records if record.trial in lost and settings_of(record) != settings_of(baseline)
    ]
    now = baseline.measurement.cache
    warmer = [record for record in apart if WARMTH.get(record.measurement.cache, 0) > WARMTH.get(now, 0)]
    in_doubt = best.measurement.cache != now and now != "warm"
    if warmer or in_doubt:
        yield (
            "measure the baseline again: by now its data is read as that of the later trials was:"
            f" {_again(report, baseline)}"
        )
    for record in [record for record in apart if record not in warmer][:MOST_NAMED]:
        yield (
            f"measure trial {record.trial} again: by now its data is read as that of trial {baseline.trial} was:"
            f" {_again(report, record)}"
        )


def _again(report: StudyReport, record: TrialRecord) -> str:
    """The command that launches the same settings once more."""
    return probe_command(report, record.asked or {})
