"""From records and limits to the trial to run with. The user's own settings stay unless another trial is shown to be
faster: what looks faster by less than launches differ does not win. Another training is chosen only where it is shown
to be faster than the best that trains the same. Where settings raced, the race decides."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from vtune.analysis.comparable import (
    Settings,
    burden,
    by_settings,
    full_run,
    has_rate,
    launched_rate,
    lived_longer,
    lost_of,
    measured_enough,
    metric_of,
    same_cache,
    settings_of,
    turned_nothing,
)
from vtune.analysis.compare import BEYOND_DOUBT, Z95, Rate, disagreement, ratio_of, widening_for
from vtune.analysis.feasible import ruled_out_by, still_compared
from vtune.analysis.fit import unjudged
from vtune.analysis.laps import met_in_race
from vtune.analysis.lost import with_lost
from vtune.analysis.race import DELTA, Paired
from vtune.analysis.remarks import disturbed, remarks_on
from vtune.analysis.rungs import OUT_OF_MEMORY
from vtune.analysis.same_training import another_training
from vtune.analysis.tail_of_all import told_by_all, told_lines
from vtune.analysis.two_sides import Z99
from vtune.domain.choice import Choice, RankedBy, Ratio
from vtune.domain.experiment import Limits
from vtune.domain.numbers import trials_text
from vtune.domain.record import TrialRecord


def choose(
    records: Sequence[TrialRecord],
    *,
    same: Collection[str],
    limits: Limits | None = None,
    ram_total_bytes: int | None = None,
    cores: float | None = None,
    rolled_back: Collection[int] = (),
) -> Choice:
    """`ram_total_bytes` and `cores` are those of the machine that the records are from. `same`: knobs of class SAME,
    the user's own among them. `rolled_back`: trials of steps that a walk did not keep; the choice keeps one only where
    more is shown by now."""
    limits = limits or Limits()
    # Of full runs only that their settings ran out of memory.
    telling = [one for one in records if not full_run(one) or one.status in OUT_OF_MEMORY]
    measured = [record for record in telling if has_rate(record)]
    out = ruled_out_by(telling, limits, ram_total_bytes)
    # What was ended early was only ever compared with one leader: as long as that leads, it stands for nothing.
    compared_with = still_compared(telling, out)
    beaten = frozenset(r.trial for r in measured if r.beaten is not None and r.trial not in compared_with)
    lasting = [r for r in measured if not r.measurement.fed_from_stock and r.trial not in beaten]
    ruled_out = out.trials
    feasible = [record for record in lasting if record.trial not in ruled_out]
    solid = [record for record in feasible if measured_enough(record)] or feasible
    ranked_by = metric_of(measured)
    again = told_by_all(measured)
    rates = {record.trial: launched_rate(again.get(record.trial, record), ranked_by, cores) for record in measured}
    baseline = _baseline(lasting, feasible, rates)
    own = baseline is not None and any(
        turned_nothing(record) and settings_of(record) == settings_of(baseline) for record in measured
    )

    groups = by_settings([record for record in lasting if not lived_longer(record)])
    spread = disagreement([rates[record.trial] for record in group] for group in groups.values())
    compared = _one_for_all(solid, baseline)
    rivals = [_middle(group, rates) for group in by_settings(compared).values()]
    if baseline is not None and baseline in feasible:
        rivals = [rival for rival in rivals if settings_of(rival) != settings_of(baseline)]
    legs = [again.get(record.trial, record) for record in lasting if record.race is not None]
    against = _Against(legs, rates, ranked_by, cores, widen=spread * widening_for(len(rivals)))
    ratios: dict[int, Ratio] = {}
    rounds: dict[int, int] = {}
    of = {record.trial: record for record in measured}
    if baseline is not None:
        ratios = {record.trial: against.ratio(record, baseline) for record in measured if record != baseline}
        rounds = {trial: met.pairs for trial in ratios if (met := against.paired(of[trial], baseline)) is not None}
    # What wins only by what is shown: first a step that was taken back, over all others that train the same; then
    # another training.
    back = {settings_of(record) for record in measured if record.trial in rolled_back}
    differs = _other_trainings(measured, baseline, same)
    contest = _Contest(baseline, ratios, against, baseline_fits=baseline in feasible)
    alike = [rival for rival in rivals if rival.trial not in differs]
    best_same = contest.best(None, [rival for rival in alike if settings_of(rival) not in back])
    best_same = contest.best(best_same, [rival for rival in alike if settings_of(rival) in back])
    best = contest.best(best_same, [rival for rival in rivals if rival.trial in differs])
    least = rates[best.trial].value if best is not None else 0.0
    weak = {record.trial for record in feasible} - {record.trial for record in solid}
    short = {trial for trial in weak if rates[trial].value > least}
    tie = _tie(best, [record for record in feasible if record.trial not in short], against)
    doubted = [one for one in measured if one.trial in differs or settings_of(one) in back]
    over_same = {one.trial: against.ratio(one, best_same) for one in doubted} if best_same is not None else {}
    raced = against.paired(best, best_same) if best is not None and best_same not in (None, best) else None
    speedup = _speedup(best, baseline, ratios)
    neighbours = tuple(disturbed(measured, {record.trial: lost_of(record, cores) for record in measured}, cores))
    choice = Choice(
        best=best,
        baseline=baseline,
        best_same=best_same,
        over_same=over_same,
        over_same_rounds=raced.pairs if raced is not None else None,
        other_trainings=differs,
        baseline_is_own=own,
        ranked_by=ranked_by if measured else None,
        speedup=speedup,
        unconfirmed=_unconfirmed(best, baseline, speedup, lasting, against),
        provisional=tuple(one.trial for one in _distinct(best, baseline) if best and not measured_enough(one)),
        tie=tuple(record.trial for record in tie),
        ratios=ratios,
        paired_rounds=rounds,
        over=out.over,
        cramped=tuple(sorted(out.cramped)),
        neighbours=neighbours,
        remarks=(
            *remarks_on(measured, ranked_by, spread, groups, feasible),
            *told_lines(_distinct(best, baseline), again, measured),
            *neighbours,
            *_busy_remark([one for one in telling if one.on_busy_machine]),
            *unjudged(feasible, limits, ram_total_bytes),
        ),
    )
    return with_lost(choice, records, short=short, died=out.died, beaten=beaten)


def _busy_remark(busy: Sequence[TrialRecord]) -> list[str]:
    ran = "ran on a busy machine and decides" if len(busy) == 1 else "ran on a busy machine and decide"
    return [f"{trials_text([one.trial for one in busy])} {ran} nothing"] if busy else []


class _Against:
    """Two records' settings against each other: by the rounds of a race where they met in one, else by their rates."""

    def __init__(
        self,
        legs: Sequence[TrialRecord],
        rates: Mapping[int, Rate],
        ranked_by: RankedBy,
        cores: float | None,
        *,
        widen: float,
    ) -> None:
        self._legs = legs
        self._rates, self._ranked_by, self._cores, self._widen = rates, ranked_by, cores, widen
        self._known: dict[tuple[Settings, Settings], Paired | None] = {}

    def paired(self, one: TrialRecord, other: TrialRecord) -> Paired | None:
        if not self._legs or not same_cache(one, other):
            return None
        key = settings_of(one), settings_of(other)
        if key not in self._known:
            met = met_in_race(self._legs, one, other, self._ranked_by, self._cores)
            self._known[key] = met.paired if met is not None else None
        return self._known[key]

    def ratio(self, one: TrialRecord, other: TrialRecord) -> Ratio:
        found = self.paired(one, other)
        if found is not None:
            return found.ratio
        return ratio_of(self._rates[one.trial], self._rates[other.trial], widen=self._widen)

    def shown_over(self, one: TrialRecord, other: TrialRecord) -> bool:
        """By the rule that keeps a phase's step."""
        found = self.paired(one, other)
        if found is not None:
            return found.called == "faster"
        widen = max(self._widen, Z99 / Z95)
        ratio = ratio_of(self._rates[one.trial], self._rates[other.trial], widen=widen)
        return same_cache(one, other) and ratio.shown_faster_by(math.log1p(DELTA))

    def worth_it(self, one: TrialRecord, other: TrialRecord) -> bool:
        """Faster by more than what counts as equal. Of single launches the whole interval has to be; rounds of a race
        show it of the number in the middle, and that there is a difference at all of the interval."""
        found = self.paired(one, other)
        if found is not None:
            return found.called == "faster"
        ratio = self.ratio(one, other)
        return ratio.ci95 is not None and ratio.ci95[0] > 1 + DELTA


def _baseline(
    lasting: Sequence[TrialRecord], feasible: Sequence[TrialRecord], rates: Mapping[int, Rate]
) -> TrialRecord | None:
    """The settings of the first trial that turned nothing, in a launch that read its data as the fastest trial did.
    Of several the middle one, and of two the faster: an unlucky launch of the baseline would flatter all others."""
    if not lasting:
        return None
    own = next((record for record in lasting if turned_nothing(record)), lasting[0])
    fastest = max(feasible or lasting, key=lambda record: rates[record.trial].value)
    launches = [record for record in lasting if settings_of(record) == settings_of(own)]
    like = own if same_cache(own, fastest) else next((one for one in launches if same_cache(one, fastest)), own)
    launches = [record for record in launches if record.measurement.cache == like.measurement.cache]
    launches = [record for record in launches if measured_enough(record)] or launches
    return sorted(launches, key=lambda record: rates[record.trial].value)[len(launches) // 2]


def _one_for_all(solid: Sequence[TrialRecord], baseline: TrialRecord | None) -> list[TrialRecord]:
    """Settings are judged by trials as long as all others; by a longer launch only where those read their data
    otherwise than the baseline did, and so cannot be compared with it."""
    usual = [record for record in solid if not lived_longer(record)]
    like = {settings_of(record) for record in usual if baseline is not None and same_cache(record, baseline)}
    longer = [record for record in solid if lived_longer(record) and settings_of(record) not in like]
    return usual + [record for record in longer if baseline is not None and same_cache(record, baseline)]


def _middle(group: Sequence[TrialRecord], rates: Mapping[int, Rate]) -> TrialRecord:
    """The luckiest of several launches would flatter its settings."""
    return sorted(group, key=lambda record: rates[record.trial].value)[(len(group) - 1) // 2]


def _other_trainings(
    records: Sequence[TrialRecord], baseline: TrialRecord | None, same: Collection[str]
) -> frozenset[int]:
    if baseline is None:
        return frozenset()
    return frozenset(record.trial for record in records if another_training(record, baseline, same))


class _Contest:
    """Rounds of rivals: each has to beat what won the rounds before it."""

    def __init__(
        self,
        baseline: TrialRecord | None,
        ratios: Mapping[int, Ratio],
        against: _Against,
        *,
        baseline_fits: bool,
    ) -> None:
        self._baseline, self._ratios, self._against, self._fits = baseline, ratios, against, baseline_fits
        # The fastest of the rounds so far, by the number in the middle: `best` may be an equal that asks for less.
        self._fastest: TrialRecord | None = None

    def best(self, before: TrialRecord | None, rivals: Sequence[TrialRecord]) -> TrialRecord | None:
        baseline, against = self._baseline, self._against
        if baseline is None:
            return None
        if self._fits:
            rivals = [rival for rival in rivals if against.worth_it(rival, baseline) and same_cache(rival, baseline)]
        if before is not None:
            rivals = [rival for rival in rivals if self._shown(rival, before)]
        if not rivals:
            return before or (baseline if self._fits else None)
        fastest = max(rivals, key=self._gain)
        self._fastest = max((one for one in (self._fastest, fastest) if one is not None), key=self._gain)
        equals = [
            rival
            for rival in rivals
            if self._gain(rival) >= self._gain(fastest) * (1 - DELTA)
            and same_cache(rival, fastest)
            and (rival == fastest or not against.ratio(rival, fastest).shown_slower)
        ]
        return min(equals, key=burden)

    def _shown(self, rival: TrialRecord, before: TrialRecord) -> bool:
        """Over what won; unless the two raced, over the fastest as well."""
        against, fastest = self._against, self._fastest or before
        raced = against.paired(rival, before) is not None
        return against.shown_over(rival, before) and (raced or against.shown_over(rival, fastest))

    def _gain(self, record: TrialRecord) -> float:
        return self._ratios[record.trial].value if record.trial in self._ratios else 1.0


def _tie(best: TrialRecord | None, feasible: Sequence[TrialRecord], against: _Against) -> list[TrialRecord]:
    if best is None:
        return []
    return [
        record
        for record in feasible
        if record.trial != best.trial and same_cache(record, best) and not against.ratio(record, best).shown_slower
    ]


def _speedup(best: TrialRecord | None, baseline: TrialRecord | None, ratios: Mapping[int, Ratio]) -> Ratio | None:
    if best is None or baseline is None:
        return None
    if best.trial == baseline.trial:
        return Ratio(value=1.0, ci95=(1.0, 1.0))
    return ratios[best.trial] if same_cache(best, baseline) else None


def _distinct(best: TrialRecord | None, baseline: TrialRecord | None) -> list[TrialRecord]:
    return list({one.trial: one for one in (baseline, best) if one is not None}.values())


def _unconfirmed(
    best: TrialRecord | None,
    baseline: TrialRecord | None,
    speedup: Ratio | None,
    lasting: Sequence[TrialRecord],
    against: _Against,
) -> tuple[int, ...]:
    """A winner is a claim; one that keeps what is there, or that only a limit makes the best, is none."""
    if speedup is None or speedup.ci95 is None or not 1 < speedup.ci95[0] <= BEYOND_DOUBT:
        return ()
    if best is not None and baseline is not None and against.paired(best, baseline) is not None:
        return ()
    return tuple(
        one.trial
        for one in _distinct(best, baseline)
        if sum(settings_of(record) == settings_of(one) and same_cache(record, one) for record in lasting) < 2
    )
