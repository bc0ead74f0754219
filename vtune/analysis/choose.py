"""From records and limits to the trial to run with. The user's own settings stay unless another trial is shown to be
faster: what looks faster by less than launches differ does not win."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from vtune.analysis.compare import (
    RUN_TO_RUN_SD,
    Z95,
    Rate,
    disagreement,
    launched,
    lost_to_others,
    ratio_of,
    widening_for,
)
from vtune.analysis.fit import excess_of, nearest_relaxation, needs_text, unjudged
from vtune.domain.choice import Choice, Excess, Lost, LostFor, RankedBy, Ratio
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Limits
from vtune.domain.numbers import rate, times, trials_text
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus

# Trials this close to the fastest are equals; among equals the gentler one wins. Less is beyond what trials resolve,
# so a winner must be shown to be faster than the baseline by more than it.
INDIFFERENCE = 0.02
# Of an interval's lower end: from here on, one launch each is enough. Launches of equal settings come no further
# apart, not with others on the machine either.
BEYOND_DOUBT = 1.2
# A rate from fewer steps counts only where it was shown to be steady, or where nothing better is there.
LEAST_STEPS = 20
# Widening that is worth a word.
WORTH_SAYING = 1.05
# Vtune's own words for a trial that turned nothing, in records that do not say what they turned.
TURNED_NOTHING = "the current settings"

Settings = tuple[tuple[str, str], ...]


def choose(
    records: Sequence[TrialRecord],
    *,
    limits: Limits | None = None,
    ram_total_bytes: int | None = None,
    cores: float | None = None,
) -> Choice:
    """`ram_total_bytes` and `cores` are those of the machine that the records are from."""
    limits = limits or Limits()
    measured = [record for record in records if _completed(record) and (record.measurement.samples_per_s or 0) > 0]
    over = {r.trial: found for r in measured if (found := excess_of(r, limits, ram_total_bytes))}
    lasting = [record for record in measured if not record.measurement.fed_from_stock]
    feasible = [record for record in lasting if record.trial not in over]
    solid = [record for record in feasible if measured_enough(record)] or feasible
    ranked_by = _metric(measured)
    shares = {record.trial: _others_share(record, cores) for record in measured}
    rates = {record.trial: launched(_rate(record, ranked_by), shares[record.trial]) for record in measured}
    baseline = _baseline(lasting, feasible, rates)
    own = baseline is not None and any(
        _turned_nothing(record) and settings_of(record) == settings_of(baseline) for record in measured
    )

    groups = _by_settings(lasting)
    spread = disagreement([rates[record.trial] for record in group] for group in groups.values())
    rivals = [_middle(group, rates) for group in _by_settings(solid).values()]
    if baseline is not None and baseline in feasible:
        rivals = [rival for rival in rivals if settings_of(rival) != settings_of(baseline)]
    widen = spread * widening_for(len(rivals))
    ratios: dict[int, Ratio] = {}
    if baseline is not None:
        at = rates[baseline.trial]
        ratios = {trial: ratio_of(value, at, widen=widen) for trial, value in rates.items() if trial != baseline.trial}
    best = _best(baseline, rivals, rates, ratios, widen, baseline_fits=baseline in feasible)
    least = rates[best.trial].value if best is not None else 0.0
    weak = {record.trial for record in feasible} - {record.trial for record in solid}
    short = {trial for trial in weak if rates[trial].value > least}
    tie = _tie(best, [record for record in feasible if record.trial not in short], rates, widen)
    comparison = _Comparison(best, baseline, tie, short, ratios, over)
    speedup = _speedup(best, baseline, ratios)
    neighbours = tuple(_disturbed(measured, shares, cores))
    return Choice(
        best=best,
        baseline=baseline,
        baseline_is_own=own,
        ranked_by=ranked_by if measured else None,
        speedup=speedup,
        unconfirmed=_unconfirmed(best, baseline, speedup, lasting),
        provisional=tuple(one.trial for one in _distinct(best, baseline) if best and not measured_enough(one)),
        tie=tuple(record.trial for record in tie),
        lost=tuple(_lost(record, comparison) for record in records if best is None or record.trial != best.trial),
        ratios=ratios,
        over=over,
        nearest=nearest_relaxation(over),
        neighbours=neighbours,
        remarks=(
            *_remarks(measured, ranked_by, spread, groups, feasible),
            *neighbours,
            *unjudged(feasible, limits, ram_total_bytes),
        ),
    )


def settings_of(record: TrialRecord) -> Settings:
    """What tells two trials' settings apart; what is not set does not count."""
    return tuple(sorted((name, repr(value)) for name, value in record.settings.items() if value is not None))


def same_cache(one: TrialRecord, other: TrialRecord) -> bool:
    """Cold and warm reading are different questions; where nobody knows, nothing is held against a trial."""
    regimes = {one.measurement.cache, other.measurement.cache}
    return "unknown" in regimes or len(regimes) == 1


def measured_enough(record: TrialRecord) -> bool:
    return record.measurement.steady or record.measurement.steps_measured >= LEAST_STEPS


def _completed(record: TrialRecord) -> bool:
    return record.status is TrialStatus.COMPLETED


def _turned_nothing(record: TrialRecord) -> bool:
    return record.reason == TURNED_NOTHING if record.asked is None else not record.asked


def _metric(measured: Sequence[TrialRecord]) -> RankedBy:
    """One measure for all: a whole run's rate pays what a steady rate does not."""
    whole = all((record.measurement.samples_per_s_whole_run or 0) > 0 for record in measured)
    return "samples_per_s_whole_run" if whole else "samples_per_s"


def _rate(record: TrialRecord, ranked_by: RankedBy) -> Rate:
    """The interval of the steady rate, as wide in proportion: what a whole run pays besides makes it no wider."""
    steady, interval = record.measurement.samples_per_s, record.measurement.samples_per_s_ci95
    value = getattr(record.measurement, ranked_by)
    assert steady and value
    if interval is None:
        return Rate(value, None)
    return Rate(value, (interval[0] * value / steady, interval[1] * value / steady))


def _others_share(record: TrialRecord, cores: float | None) -> float:
    """Of the cores, what others kept busy; where nobody knows how many there are, of those that were busy."""
    others = record.measurement.others_cores or 0.0
    busy = max(1.0, others + (record.measurement.tree_cores or 0.0))
    return min(1.0, max(0.0, others) / (cores or busy))


def _baseline(
    lasting: Sequence[TrialRecord], feasible: Sequence[TrialRecord], rates: Mapping[int, Rate]
) -> TrialRecord | None:
    """The settings of the first trial that turned nothing, in a launch that read its data as the fastest trial did.
    Of several the middle one, and of two the faster: an unlucky launch of the baseline would flatter all others."""
    if not lasting:
        return None
    own = next((record for record in lasting if _turned_nothing(record)), lasting[0])
    fastest = max(feasible or lasting, key=lambda record: rates[record.trial].value)
    launches = [record for record in lasting if settings_of(record) == settings_of(own)]
    like = own if same_cache(own, fastest) else next((one for one in launches if same_cache(one, fastest)), own)
    launches = [record for record in launches if record.measurement.cache == like.measurement.cache]
    launches = [record for record in launches if measured_enough(record)] or launches
    return sorted(launches, key=lambda record: rates[record.trial].value)[len(launches) // 2]


def _by_settings(records: Sequence[TrialRecord]) -> dict[tuple[Settings, str], list[TrialRecord]]:
    groups: dict[tuple[Settings, str], list[TrialRecord]] = {}
    for record in records:
        groups.setdefault((settings_of(record), record.measurement.cache), []).append(record)
    return groups


def _middle(group: Sequence[TrialRecord], rates: Mapping[int, Rate]) -> TrialRecord:
    """The luckiest of several launches would flatter its settings."""
    return sorted(group, key=lambda record: rates[record.trial].value)[(len(group) - 1) // 2]


def _best(
    baseline: TrialRecord | None,
    rivals: Sequence[TrialRecord],
    rates: Mapping[int, Rate],
    ratios: Mapping[int, Ratio],
    widen: float,
    *,
    baseline_fits: bool,
) -> TrialRecord | None:
    if baseline is None:
        return None
    if baseline_fits:
        rivals = [rival for rival in rivals if _worth_it(ratios[rival.trial]) and same_cache(rival, baseline)]
    if not rivals:
        return baseline if baseline_fits else None
    fastest = max(rivals, key=lambda record: rates[record.trial].value)
    at = rates[fastest.trial]
    equals = [
        rival
        for rival in rivals
        if rates[rival.trial].value >= at.value * (1 - INDIFFERENCE)
        and same_cache(rival, fastest)
        and not ratio_of(rates[rival.trial], at, widen=widen).shown_slower
    ]
    return min(equals, key=lambda record: _burden(record, baseline))


def _worth_it(ratio: Ratio) -> bool:
    return ratio.ci95 is not None and ratio.ci95[0] > 1 + INDIFFERENCE


def _burden(record: TrialRecord, baseline: TrialRecord) -> tuple[bool, float, int, int]:
    """Another training first, then what presses on the machine."""
    measured = record.measurement
    changed = measured.effective_batch != baseline.measurement.effective_batch
    workers: Scalar = record.settings.get("workers")
    return changed, workers if isinstance(workers, int) else math.inf, measured.ram_peak_bytes or 0, record.trial


def _tie(
    best: TrialRecord | None, feasible: Sequence[TrialRecord], rates: Mapping[int, Rate], widen: float
) -> list[TrialRecord]:
    if best is None:
        return []
    tie = []
    for record in feasible:
        ratio = ratio_of(rates[record.trial], rates[best.trial], widen=widen)
        if record.trial != best.trial and same_cache(record, best) and not ratio.shown_slower:
            tie.append(record)
    return tie


def _speedup(best: TrialRecord | None, baseline: TrialRecord | None, ratios: Mapping[int, Ratio]) -> Ratio | None:
    if best is None or baseline is None:
        return None
    if best.trial == baseline.trial:
        return Ratio(value=1.0, ci95=(1.0, 1.0))
    return ratios[best.trial] if same_cache(best, baseline) else None


def _distinct(best: TrialRecord | None, baseline: TrialRecord | None) -> list[TrialRecord]:
    return list({one.trial: one for one in (baseline, best) if one is not None}.values())


def _unconfirmed(
    best: TrialRecord | None, baseline: TrialRecord | None, speedup: Ratio | None, lasting: Sequence[TrialRecord]
) -> tuple[int, ...]:
    """A winner is a claim; one that keeps what is there, or that only a limit makes the best, is none."""
    if speedup is None or speedup.ci95 is None or not 1 < speedup.ci95[0] <= BEYOND_DOUBT:
        return ()
    return tuple(
        one.trial
        for one in _distinct(best, baseline)
        if sum(settings_of(record) == settings_of(one) and same_cache(record, one) for record in lasting) < 2
    )


class _Comparison:
    """What the reasons for losing are told from."""

    def __init__(
        self,
        best: TrialRecord | None,
        baseline: TrialRecord | None,
        tie: Sequence[TrialRecord],
        short: Collection[int],
        ratios: Mapping[int, Ratio],
        over: Mapping[int, tuple[Excess, ...]],
    ) -> None:
        self.best, self.baseline, self.ratios, self.over = best, baseline, ratios, over
        self.tie = {record.trial for record in tie}
        self.short = short


def _lost(record: TrialRecord, seen: _Comparison) -> Lost:
    reason, why = _why_lost(record, seen)
    return Lost(trial=record.trial, reason=reason, why=why)


def _why_lost(record: TrialRecord, seen: _Comparison) -> tuple[LostFor, str]:
    if not _completed(record):
        return "failed", f"{record.status.value.replace('_', ' ')}: {record.detail or 'no detail is known'}"
    if (record.measurement.samples_per_s or 0) <= 0:
        return "no_rate", "no rate could be measured"
    if record.trial in seen.over:
        return "over_limit", "; ".join(needs_text(excess) for excess in seen.over[record.trial])
    if record.measurement.fed_from_stock:
        return "not_lasting", "its window lived on batches that lay ready before: the rate would not last"
    best, ratio = seen.best, seen.ratios.get(record.trial)
    assert best is not None
    if settings_of(record) == settings_of(best):
        regimes = f" (its data read {record.measurement.cache}, there {best.measurement.cache}: not comparable)"
        alike = same_cache(record, best)
        return "repeated", f"the same settings as trial {best.trial}, measured again{'' if alike else regimes}"
    against = seen.baseline if ratio is not None else None
    said = "the baseline"
    if ratio is not None and against is not None:
        said = f"{times(ratio.value, ratio.ci95)} of trial {against.trial}"
    if not same_cache(record, best):
        return "other_cache", (
            f"{said}, but it read its data {record.measurement.cache} and trial {best.trial} {best.measurement.cache}:"
            " not comparable"
        )
    if record.trial in seen.short:
        return "too_short", f"{said}, but it rests on {steps_text(record)}: too few for a winner"
    if record.trial in seen.tie:
        own = seen.ratios.get(best.trial)
        gentler = ", which asks less of the machine" if own and ratio and ratio.value > own.value else ""
        if ratio and ratio.shown_faster and best is seen.baseline:
            return "tie", f"{said}: not shown to be faster by more than {INDIFFERENCE:.0%}"
        return "tie", f"{said}: not distinguishable from trial {best.trial}{gentler}"
    if against is None:
        return "baseline", f"trial {best.trial} is shown to be faster"
    return "slower", f"{said}; trial {best.trial} is faster"


def steps_text(record: TrialRecord) -> str:
    steps = record.measurement.steps_measured
    return f"{steps} measured {'step' if steps == 1 else 'steps'}, not shown to be steady"


def _disturbed(measured: Sequence[TrialRecord], shares: Mapping[int, float], cores: float | None) -> list[str]:
    """Where it is more than launches on a quiet machine differ by."""
    trials = [record for record in measured if lost_to_others(shares[record.trial]) > Z95 * RUN_TO_RUN_SD]
    if not trials:
        return []
    most = max(record.measurement.others_cores or 0.0 for record in trials)
    loss = max(lost_to_others(shares[record.trial]) for record in trials)
    kept = f"{'up to ' if len(trials) > 1 else ''}{most:.1f}{f' of {cores:g}' if cores else ''} cores"
    return [
        f"other programs kept {kept} busy during {trials_text([record.trial for record in trials])}:"
        f" without them a rate may be up to {loss:.0%} higher, and what is compared with it is judged by that"
    ]


def _remarks(
    measured: Sequence[TrialRecord],
    ranked_by: RankedBy,
    spread: float,
    groups: Mapping[tuple[Settings, str], Sequence[TrialRecord]],
    feasible: Sequence[TrialRecord],
) -> list[str]:
    lines = []
    lacking = [record.trial for record in measured if (record.measurement.samples_per_s_whole_run or 0) <= 0]
    if len(measured) > 1 and ranked_by == "samples_per_s":
        lines.append(
            "ranked by the steady rate, without start-up and epoch restarts: the rate of a whole run is not known for "
            + trials_text(lacking)
        )
    if spread > WORTH_SAYING:
        again = max(groups.values(), key=_range)
        slowest, fastest = (pick(again, key=_steady) for pick in (min, max))
        lines.append(
            f"the same settings measured again spread more than their intervals say ({rate(_steady(slowest))} samples/s"
            f" in trial {slowest.trial}, {rate(_steady(fastest))} in trial {fastest.trial}): something else changed"
            f" between them, and all intervals of ratios are widened by {spread:.{0 if spread >= 10 else 1}f}×"
        )
    regimes = {record.measurement.cache for record in feasible} - {"unknown"}
    if len(regimes) > 1:
        lines.append(
            f"some trials read their data {' and some '.join(sorted(regimes))}: only like is compared with like"
        )
    return lines


def _steady(record: TrialRecord) -> float:
    return record.measurement.samples_per_s or 0.0


def _range(group: Sequence[TrialRecord]) -> float:
    return max(map(_steady, group)) / min(map(_steady, group))
