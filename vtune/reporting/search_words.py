"""A search in words, the same for a terminal and for documents: its space, how it ended, which knob mattered, and how
far what was predicted is to be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from vtune.analysis.comparable import settings_of
from vtune.analysis.search.foretold import Foretold, Reckoning, foretold
from vtune.analysis.search.fronts import fronts
from vtune.analysis.search.importance import why_untold
from vtune.analysis.search.trust import mistrust
from vtune.domain.effects import Scalar
from vtune.domain.numbers import bytes_, rate, seconds, trials_text
from vtune.domain.prediction import Prediction
from vtune.domain.record import TrialRecord
from vtune.domain.search import Dimension, Front, Guess, Sampler, Space
from vtune.reporting.phase_words import measured, predicted_text
from vtune.reporting.search_of_study import SearchOfStudy
from vtune.reporting.study_report import StudyReport
from vtune.reporting.words import setting_word, settings_text

Row = tuple[str, ...]

SAMPLERS = {
    "auto": "by vtune's own model of the training",
    "tpe": "by Optuna's TPE, the model's five best among its first",
    "gp": "by Optuna's Gaussian process, the model's five best among its first",
    "random": "at random",
    "grid": "through the grid",
}
# What the next one is predicted to bring: less is not worth a word.
WORTH_A_WORD = 1.03
IMPORTANCE_HEAD: Row = ("knob", "over yours", "over its worst", "share")
FRONT_HEAD: Row = ("trial", "settings", "samples/s", "of the fastest", "needs")
FORETOLD_HEAD: Row = ("trial", "predicted samples/s (95 %)", "measured", "over predicted", "RAM, predicted → measured")
IMPORTANCE = "which knob mattered"
FORETOLD = "predicted against measured"


def asked_text(sampler: Sampler, trials: int, budget_s: float | None) -> str:
    budget = f" and {seconds(budget_s)} of launches" if budget_s is not None else ""
    return f"sampler {sampler} ({SAMPLERS[sampler]}), at most {trials_of(trials)}{budget}, your own settings among them"


def opening(text: str) -> str:
    """Its first letter large, the others as they are."""
    return text[:1].upper() + text[1:]


def trials_of(number: int) -> str:
    return "1 trial" if number == 1 else f"{number} trials"


def heading(search: SearchOfStudy) -> str:
    limits = [f"{name} {text}" for name, text in (("RAM", search.ram_limit), ("VRAM", search.vram_limit)) if text]
    under = f", under {' and '.join(limits)}" if limits else ""
    of = f"{trials_of(search.counted)}, {search.trials_asked} asked for"
    if search.counted <= search.trials_asked:
        of = f"{search.counted} of {trials_of(search.trials_asked)}"
    return f"search, sampler {search.sampler}, {of}{under}"


def space_text(settings_in_all: int, knobs: int, *, over_a_limit: int = 0, fell: int = 0) -> str:
    many = f"{settings_in_all} settings" if settings_in_all != 1 else "1 setting"
    parts = [f"{many} of {knobs} knobs" if knobs != 1 else f"{many} of 1 knob"]
    parts += [f"{over_a_limit} predicted over a limit"] if over_a_limit else []
    parts += [f"{fell} fell with what failed"] if fell else []
    return "; ".join(parts)


def changes_text(before: Space, now: Space) -> str | None:
    """Values that came or went by what leads now; None where more has changed than that."""
    then = {one.name: one.choices for one in before.dimensions}
    if [*then] != [one.name for one in now.dimensions]:
        return None
    parts = []
    for one in now.dimensions:
        more = replace(one, choices=tuple(choice for choice in one.choices if choice not in then[one.name]))
        less = replace(one, choices=tuple(choice for choice in then[one.name] if choice not in one.choices))
        parts += [f"also {dimension_text(more)}"] if more.choices else []
        parts += [f"no longer {dimension_text(less)}"] if less.choices else []
    left = space_text(len(now.settings), len(then))
    return f"what leads now changes what is tried: {'; '.join(parts)}; {left}" if parts else None


def not_turned_lines(lines: Sequence[str]) -> Iterator[str]:
    """A reason that begins with the knob's name needs it no second time."""
    for line in lines:
        name, _, why = line.partition(": ")
        yield f"not turned: {why if why.startswith(f'{name} ') else line}"


def not_turned_text(lines: Sequence[str]) -> str:
    """Their names alone."""
    return f"not turned: {', '.join(line.partition(':')[0] for line in lines)} (--dry-run says why)"


def dimension_text(dimension: Dimension) -> str:
    """batch_size × accumulate_steps: 2 × 1, 1 × 2."""
    names = list(dict.fromkeys(name for choice in dimension.choices for name in choice)) or [dimension.name]
    values = (
        " × ".join(setting_word(choice[name]) for name in names) if set(names) <= set(choice) else "as it is"
        for choice in dimension.choices
    )
    only = " (with workers only)" if dimension.needs_workers else ""
    return f"{' × '.join(names)}: {', '.join(values)}{only}"


def ended_text(search: SearchOfStudy) -> str | None:
    """None while it goes on."""
    if search.stopped is not None:
        return f"stopped: {search.stopped}"
    if search.ended is None:
        return None
    back = f"{search.given_back} of {trials_of(search.trials_asked)} given back" if search.given_back else ""
    told = back if back and back not in search.ended else ""
    return ": ".join(part for part in (search.ended, told) if part)


def state_text(search: SearchOfStudy) -> str:
    ended = ended_text(search)
    if ended is not None and search.stage == "confirm":
        return f"its winner is not confirmed yet: the same vtune search goes on ({ended})"
    if ended is None or (search.stage != "done" and search.stopped is None):
        return "not at its end: the same vtune search goes on" + (f" ({ended})" if ended else "")
    return ended


def left_out_text(trials: Sequence[int]) -> str:
    one = len(trials) == 1
    return (
        f"{trials_text(trials)} ran another command, config or code than the search:"
        f" {'it is' if one else 'they are'} not compared"
    )


def next_text(search: SearchOfStudy) -> str | None:
    """What more trials may bring, by the model; None where that is not worth a word, or more is to come anyway."""
    guess = max(search.next_best, key=lambda one: one.gain, default=None)
    if guess is None or search.stage != "done" or search.given_back or guess.gain <= WORTH_A_WORD:
        return None
    return f"not tried: {guess_text(guess)}"


def guess_text(guess: Guess) -> str:
    asked = settings_text(guess.settings) or "your own settings"
    return f"{asked}, predicted {predicted_text(guess.predicted)}, {guess.gain:.3g}× the best"


def importance_untold(report: StudyReport) -> str | None:
    """Why nothing can be told of it; None where something can, or there was nothing to search."""
    if report.search is None or report.search.stopped is not None:
        return None
    why = why_untold(report.compared, report.choice.ranked_by)
    return f"{IMPORTANCE}: not told, {why}" if why is not None else None


def unturned_text(search: SearchOfStudy) -> str | None:
    told = {one.knob for one in search.importance}
    never = [one.knob for one in search.importance if not one.turned]
    beyond = [one.name for one in search.dimensions if one.name not in told]
    parts = [f"not turned in any trial that gave a rate: by the model alone: {', '.join(never)}"] if never else []
    parts += [f"not told, since the model has no law for it: {', '.join(beyond)}"] if beyond and told else []
    return "; ".join(parts) or None


def importance_rows(search: SearchOfStudy) -> list[Row]:
    return [
        (one.knob, f"{one.over_own:.2f}×", f"{one.over_worst:.2f}×", "" if one.share is None else f"{one.share:.0%}")
        for one in search.importance
    ]


def importance_text(search: SearchOfStudy) -> str:
    optuna = any(one.by == "optuna" for one in search.importance)
    whose = "what sets the best apart, by Optuna" if optuna else "the differences among all that fits"
    whose += " (too few trials fit for Optuna's own)" if search.sampler != "auto" and not optuna else ""
    return (
        "by the model: the best over itself with this knob as you have it, and at its worst value that fits;"
        f" its share of {whose}"
    )


def fronts_of(report: StudyReport) -> tuple[Front, ...]:
    return fronts(report.compared, report.choice)


def front_text(front: Front) -> str:
    return f"if {front.memory} is needed elsewhere"


def front_rows(front: Front, report: StudyReport) -> list[Row]:
    seen = measured(report)
    rates = {trial: seen.rate(trial) or 0.0 for trial in front.trials}
    fastest = max(rates.values(), default=0.0)
    return [
        (
            str(trial),
            _asked(seen.records[trial]),
            rate(rates[trial]),
            f"{rates[trial] / fastest:.0%}" if fastest else "",
            f"{bytes_(front.needs_bytes[trial])} of {front.memory}",
        )
        for trial in front.trials
    ]


def reckoning_of(report: StudyReport) -> Reckoning:
    return foretold(report.compared, report.choice.ranked_by)


def remarks_of(report: StudyReport) -> list[str]:
    """Without the search's own word on its model: the verdict on it stands beside its predictions."""
    doubt = _doubt(report)
    lines = [line for line in (report.search.remarks if report.search is not None else ()) if line != doubt]
    return [*lines, *(line for line in (_won_by_others(report), _confirms_nothing(report)) if line is not None)]


def _confirms_nothing(report: StudyReport) -> str | None:
    best = report.choice.best
    again = (one for one in report.records if one.origin == "confirm" and one.measurement.fed_from_stock)
    proof = next((one for one in again if best is not None and settings_of(one) == settings_of(best)), None)
    if proof is None or best is None:
        return None
    lived = "lived on batches that lay ready before it"
    return f"trial {proof.trial}, a longer launch of trial {best.trial}'s settings, {lived}: it confirms no rate"


def _won_by_others(report: StudyReport) -> str | None:
    """What may be launched is chosen among all trials of the study; what a search may turn is less."""
    search, best = report.search, report.choice.best
    if search is None or search.best is None or best is None or best.trial in search.trials:
        return None
    own = f"of what this search turns, trial {search.best} is the best"
    return f"trial {best.trial} was set to something that this search does not turn: {own}"


def reckoning_text(report: StudyReport) -> str | None:
    """None where nothing was predicted and measured."""
    found = reckoning_of(report)
    inside, of = found.rates
    typical, furthest = found.off, found.furthest
    if not of or typical is None or furthest is None or furthest.off is None:
        return None
    parts = [f"{inside} of {trials_of(of)} came inside of the interval that was predicted (95 % should)"]
    most = f", at most {_off(furthest.off)} (trial {furthest.trial})" if of > 1 else ""
    parts += [f"typically {_off(typical)} off{most}"]
    parts += [f"their {name} of {k} of {n}" for name, (k, n) in (("RAM", found.ram), ("VRAM", found.vram)) if n]
    verdict = _verdict(found, report)
    return "; ".join(parts) + (f". {verdict}" if verdict is not None else "")


def _verdict(found: Reckoning, report: StudyReport) -> str | None:
    """The only one on the model. It foresees no neighbours."""
    search = report.search
    over = search is None or search.stage == "done" or search.stopped is not None
    is_, optunas = (
        ("was", "every second trial after that was Optuna's") if over else ("is", "every second trial is Optuna's")
    )
    doubted = _doubt(report) is not None
    if found.wrong and report.choice.neighbours:
        return (
            f"Others kept the cores busy meanwhile: they, or the model, may be why{f'; {optunas}' if doubted else ''}"
        )
    if found.wrong:
        trust = f"{optunas}; " if doubted else ""
        return f"The model {is_} wrong about this training: {trust}trust what was measured"
    return f"The model {is_} further off than it had said: {optunas}" if doubted else None


def _doubt(report: StudyReport) -> str | None:
    """What the search itself says of its model."""
    search = report.search
    if search is None or search.sampler != "auto":
        return None
    found = mistrust([one for one in report.records if one.trial in search.trials and one.origin == "search"])
    return found.text if found is not None else None


def _off(factor: float) -> str:
    return f"{factor - 1:.0%}" if factor < 2 else f"{factor:.2g} times"


def foretold_rows(found: Reckoning) -> list[Row]:
    return [
        (
            str(one.trial),
            span(one.predicted),
            rate(one.samples_per_s) if one.samples_per_s is not None else "failed",
            f"{one.ratio:.2f}×{'' if one.inside else ', outside'}" if one.ratio is not None else "",
            _memory(one),
        )
        for one in found.trials
    ]


def span(predicted: Prediction) -> str:
    low, high = predicted.samples_per_s_ci95
    return f"{rate(predicted.samples_per_s)} ({rate(low)} to {rate(high)})"


def _memory(one: Foretold) -> str:
    if one.predicted.ram_bytes is None or one.ram_bytes is None:
        return ""
    return f"{bytes_(one.predicted.ram_bytes)} → {bytes_(one.ram_bytes)}"


def _asked(record: TrialRecord) -> str:
    asked: dict[str, Scalar] = dict(record.asked or {})
    return settings_text(asked) or "your own"
