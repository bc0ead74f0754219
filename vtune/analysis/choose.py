"""From records and limits to the trial to run with. The user's own settings stay unless another trial is shown to be
faster: what looks faster by less than launches differ does not win. Where settings raced, the race decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from vtune.analysis.compare import BEYOND_DOUBT, Rate, disagreement, ratio_of, widening_for
from vtune.analysis.feasible import ruled_out_by, still_compared
from vtune.analysis.fit import unjudged
from vtune.analysis.laps import met_in_race
from vtune.analysis.lost import Seen, lost_because
from vtune.analysis.race import DELTA, Paired
from vtune.analysis.remarks import disturbed, remarks_on
from vtune.analysis.rungs import OUT_OF_MEMORY
from vtune.analysis.tail_of_all import told_by_all, told_lines
from vtune.domain.choice import Choice, RankedBy, Ratio
from vtune.domain.experiment import Limits
from vtune.domain.record import TrialRecord


def choose(
    records: Sequence[TrialRecord],
    *,
    limits: Limits | None = None,
    ram_total_bytes: int | None = None,
    cores: float | None = None,
) -> Choice:
    """`ram_total_bytes` and `cores` are those of the machine that the records are from."""
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
    best = _best(baseline, rivals, ratios, against, baseline_fits=baseline in feasible)
    least = rates[best.trial].value if best is not None else 0.0
    weak = {record.trial for record in feasible} - {record.trial for record in solid}
    short = {trial for trial in weak if rates[trial].value > least}
    tie = _tie(best, [record for record in feasible if record.trial not in short], against)
    seen = Seen(best, baseline, tie, short, ratios, rounds, out.over, out.died, beaten)
    speedup = _speedup(best, baseline, ratios)
    neighbours = tuple(disturbed(measured, {record.trial: lost_of(record, cores) for record in measured}, cores))
    return Choice(
        best=best,
        baseline=baseline,
        baseline_is_own=own,
        ranked_by=ranked_by if measured else None,
        speedup=speedup,
        unconfirmed=_unconfirmed(best, baseline, speedup, lasting, against),
        provisional=tuple(one.trial for one in _distinct(best, baseline) if best and not measured_enough(one)),
        tie=tuple(record.trial for record in tie),
        lost=tuple(lost_because(record, seen) for record in records if best is None or record.trial != best.trial),
        ratios=ratios,
        paired_rounds=rounds,
        over=out.over,
        cramped=tuple(sorted(out.cramped)),
        neighbours=neighbours,
        remarks=(
            *remarks_on(measured, ranked_by, spread, groups, feasible),
            *told_lines(_distinct(best, baseline), again, measured),
            *neighbours,
            *unjudged(feasible, limits, ram_total_bytes),
        ),
    )


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


def _best(
    baseline: TrialRecord | None,
    rivals: Sequence[TrialRecord],
    ratios: Mapping[int, Ratio],
    against: _Against,
    *,
    baseline_fits: bool,
) -> TrialRecord | None:
    if baseline is None:
        return None

    def gain(record: TrialRecord) -> float:
        return ratios[record.trial].value if record.trial in ratios else 1.0

    if baseline_fits:
        rivals = [rival for rival in rivals if against.worth_it(rival, baseline) and same_cache(rival, baseline)]
    if not rivals:
        return baseline if baseline_fits else None
    fastest = max(rivals, key=gain)
    equals = [
        rival
        for rival in rivals
        if gain(rival) >= gain(fastest) * (1 - DELTA)
        and same_cache(rival, fastest)
        and (rival == fastest or not against.ratio(rival, fastest).shown_slower)
    ]
    return min(equals, key=lambda record: burden(record, baseline))


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
