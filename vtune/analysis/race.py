"""The race: fresh launches of a few settings in rounds, compared within each round, until one is shown to be faster or
they are equal by all that matters. What drifts over minutes (heat, clocks, neighbours) drifts for all of a round."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from scipy.special import stdtrit

from vtune.analysis.compare import BEYOND_DOUBT, Z95, Rate, ratio_of, widening_for
from vtune.domain.choice import Ratio
from vtune.domain.record import Cache

# What is closer than this is equal: choosing between such settings is not worth a launch.
DELTA = 0.02
THOROUGH_DELTA = 0.01
ROUNDS = 8
LEAST_ROUNDS = 2
# Rounds beyond the planned ones that replace pairs which could not be compared (the first launch read cold).
EXTRA_ROUNDS = 2
# Equality is a claim as well: not before the spread of the pairs is known from the race itself.
EQUAL_FROM = 4
# Before anything is seen, pairs of launches are taken to differ by this standard deviation, which weighs as much as
# three further pairs: two pairs that happen to agree prove nothing.
PRIOR_SD = 0.025
PRIOR_FREEDOM = 3
# Launches of the other contestants spread much alike, and tell how much pairs spread; by half, since their pairs with
# the baseline share its launches.
OTHERS_COUNT = 0.5
# The error that the last round's look may make, of one comparison. Every round is looked at, so each has a part of
# it, (n / rounds)²: early looks stand on the prior more than on what was seen. Simulated with launches that drift by
# 0.3 % from each to the next: of 3 000 races of two equals that differ by 1, 2 and 3 % from launch to launch 0, 1.5
# and 4.7 % call one different; a true 5 % among launches that differ by 2.24 % is found in 95 %, after 5.5 rounds on
# average. (An even share for each look, 0.012, calls 7.5 % of equals different where launches differ by 3 %.) Of
# several contestants each comparison has its share: at most 2.4 % of races of equals have a winner, and a 5 % gain
# wins 88 % of races of three and 85 % of races of five.
LEVEL = 0.016

Out = Literal["slower", "failed"]
# "tie": not shown, or by no more than counts as equal.
Called = Literal["faster", "slower", "tie"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lap:
    """One launch of one contestant in one round; no rate where it failed."""

    rate: float | None
    cache: Cache = "unknown"
    # By how much its rate may be higher without other programs beside it, as a logarithm.
    lost: float = 0.0


# Contestant → its launch. 0 is the baseline.
Round = Mapping[int, Lap]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Contestants count the baseline."""

    contestants: int
    rounds: int = ROUNDS
    delta: float = DELTA

    @property
    def most_rounds(self) -> int:
        return self.rounds + EXTRA_ROUNDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """One contestant over another, by the rounds in which both were launched alike."""

    # Its interval holds at this look and at all earlier ones together, and for all contestants against one.
    ratio: Ratio
    pairs: int
    # What counts as equal, as a logarithm.
    delta: float
    # Not further apart than this, either way (each side 95 %); None with too few pairs for such a claim.
    within: float | None = None
    # Rounds in which one of the two read its data otherwise.
    not_paired: int = 0

    @property
    def called(self) -> Called:
        """The one rule by which a race is judged, in its rounds and by whoever reads it afterwards: shown, and by more
        than what counts as equal."""
        if self.ratio.shown_faster_by(self.delta):
            return "faster"
        return "slower" if self.ratio.shown_slower and -math.log(self.ratio.value) > self.delta else "tie"

    @property
    def shown_equal(self) -> bool:
        return self.within is not None and self.within < self.delta


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """`lead` is a winner only where `won`; otherwise those that are left are a tie."""

    rounds: int
    decided: bool
    lead: int | None
    won: bool = False
    # Not told from the lead, itself first.
    equals: tuple[int, ...] = ()
    # Still to be launched.
    running: tuple[int, ...] = ()
    out: Mapping[int, Out] = field(default_factory=dict)
    # Each contestant over the baseline.
    against_baseline: Mapping[int, Paired] = field(default_factory=dict)


def judge_race(rounds: Sequence[Round], rules: Rules) -> Standing:
    """`rounds` in their order. One that is not complete yet decides nothing, but a failure in it counts."""
    out: dict[int, Out] = {}
    beaten = False
    complete = 0
    decided = False
    for at, this in enumerate(rounds, 1):
        running = _running(rules, out)
        out.update({c: "failed" for c in running if c in this and this[c].rate is None})
        if decided or any(c not in this for c in running) or at != complete + 1:
            break
        complete = at
        if 0 in out or complete < LEAST_ROUNDS:
            continue
        shown = _shown_slower(rounds[:at], rules, out, beaten=beaten)
        beaten = beaten or 0 in shown
        out.update({c: "slower" for c in shown if c != 0})
        decided = _is_decided(rounds[:at], rules, out, beaten=beaten)
    return _standing(rounds[:complete], rules, out, beaten=beaten, decided=decided)


def paired(rounds: Sequence[Round], one: int, other: int, rules: Rules) -> Paired | None:
    """None without two pairs to tell their spread from. The interval is what all looks so far leave: they hold
    together, so what was shown stays shown."""
    own = _gaps(rounds, one, other)
    n = len(own.logs)
    if n < LEAST_ROUNDS:
        return None
    freedom, squares = float(PRIOR_FREEDOM), PRIOR_FREEDOM * PRIOR_SD**2
    for third in range(1, rules.contestants):
        if third not in (one, other) and len((beside := _gaps(rounds, third, 0)).logs) >= LEAST_ROUNDS:
            freedom += OTHERS_COUNT * (len(beside.logs) - 1)
            squares += OTHERS_COUNT * beside.until(len(beside.logs))[1]
    low, high, mean, within = -math.inf, math.inf, 0.0, None
    for look in range(LEAST_ROUNDS, n + 1):
        mean, spread, weight = own.until(look)
        error = math.sqrt((squares + spread) / (freedom + look - 1) / weight)
        half = float(stdtrit(freedom + look - 1, 1 - level(look, rules) / 2)) * error
        low, high = max(low, mean - half), min(high, mean + half)
        if low > high:  # the looks contradict each other, which they seldom may: the last one knows most
            low, high = mean - half, mean + half
        if look >= EQUAL_FROM:
            within = abs(mean) + float(stdtrit(freedom + look - 1, 0.95)) * error
    value = min(high, max(low, mean))
    return Paired(
        ratio=Ratio(value=math.exp(value), ci95=(math.exp(low), math.exp(high))),
        pairs=n,
        delta=rules.delta,
        within=within,
        not_paired=own.not_paired,
    )


def level(n: int, rules: Rules) -> float:
    """Of the look after n pairs, of one comparison of several."""
    return LEVEL * min(1.0, n / rules.rounds) ** 2 / max(1, rules.contestants - 1)


def worth_racing(rates: Sequence[Rate], baseline: int = 0, *, spread: float = 1.0) -> tuple[int, ...]:
    """Of settings that were launched once each, those that only a race can tell from the fastest, the baseline first.
    Nothing where the gap exceeds the intervals already: then one launch each is enough. `spread`: by
    what factor launches of the same settings disagree more than their intervals say."""
    widen = spread * widening_for(len(rates) - 1)
    lead = max(range(len(rates)), key=lambda one: rates[one].value)
    ratios = [ratio_of(rate, rates[lead], widen=widen) for rate in rates]
    near = [one for one, ratio in enumerate(ratios) if one == lead or not ratio.shown_slower]
    gain = ratio_of(rates[lead], rates[baseline], widen=widen)
    sure = lead == baseline or (gain.ci95 is not None and gain.ci95[0] > BEYOND_DOUBT)
    if near == [lead] and sure:
        return ()
    return (baseline, *(one for one in near if one != baseline))


@dataclass(frozen=True, slots=True)
class _Gaps:
    """Logarithms of one rate over another, by the rounds that paired them."""

    logs: tuple[float, ...]
    weights: tuple[float, ...]
    not_paired: int

    def until(self, n: int) -> tuple[float, float, float]:
        """Of the first n: their mean, the sum of squares around it, the sum of weights."""
        logs, weights = self.logs[:n], self.weights[:n]
        total = sum(weights)
        mean = sum(w * log for w, log in zip(weights, logs, strict=True)) / total
        return mean, sum(w * (log - mean) ** 2 for w, log in zip(weights, logs, strict=True)), total


def _gaps(rounds: Sequence[Round], one: int, other: int) -> _Gaps:
    pairs = [(this[one], this[other]) for this in rounds if one in this and other in this]
    alike, not_paired = _alike([(a, b) for a, b in pairs if a.rate and b.rate])
    logs = tuple(math.log(a.rate / b.rate) for a, b in alike if a.rate and b.rate)
    return _Gaps(logs, tuple(_weights(alike)) if alike else (), not_paired)


def _running(rules: Rules, out: Mapping[int, Out]) -> list[int]:
    return [] if 0 in out else [c for c in range(rules.contestants) if c not in out]


def _alike(pairs: Sequence[tuple[Lap, Lap]]) -> tuple[list[tuple[Lap, Lap]], int]:
    """Pairs whose sides read their data alike, and all as most of them did: cold and warm are different questions."""
    matching = [(pair, regime) for pair in pairs if (regime := _regime(pair)) is not None]
    counts = Counter(regime for _, regime in matching if regime != "unknown")
    # Of equally many the later one: the data is getting warmer.
    last = {regime: at for at, (_, regime) in enumerate(matching)}
    usual = max(counts, key=lambda regime: (counts[regime], last[regime]), default="unknown")
    alike = [pair for pair, regime in matching if regime in (usual, "unknown")]
    return alike, len(pairs) - len(alike)


def _regime(pair: tuple[Lap, Lap]) -> str | None:
    known = {lap.cache for lap in pair} - {"unknown"}
    return None if len(known) > 1 else next(iter(known), "unknown")


def _weights(pairs: Sequence[tuple[Lap, Lap]]) -> list[float]:
    """A pair beside busy neighbours weighs less than one without, by what they may have taken from its launches. Only
    against the other pairs: how much all of them spread is seen from themselves."""
    taken = [(a.lost**2 + b.lost**2) / Z95**2 for a, b in pairs]
    raw = [PRIOR_SD**2 / (PRIOR_SD**2 + one) for one in taken]
    return [weight / max(raw) for weight in raw]


def _lead(rounds: Sequence[Round], rules: Rules, among: Sequence[int]) -> int:
    """By the pairs with the baseline; only with the baseline out would there be no pairs, and no race."""

    def gain(contestant: int) -> float:
        found = paired(rounds, contestant, 0, rules) if contestant else None
        return math.log(found.ratio.value) if found is not None else 0.0 if contestant == 0 else -math.inf

    return max(among, key=gain)


def _shown_slower(rounds: Sequence[Round], rules: Rules, out: Mapping[int, Out], *, beaten: bool) -> set[int]:
    among = [c for c in _running(rules, out) if c or not beaten]
    if not among:
        return set()
    lead = _lead(rounds, rules, among)
    return {c for c in among if c != lead and (found := paired(rounds, c, lead, rules)) and found.called == "slower"}


def _is_decided(rounds: Sequence[Round], rules: Rules, out: Mapping[int, Out], *, beaten: bool) -> bool:
    among = [c for c in _running(rules, out) if c or not beaten]
    if len(among) <= 1:
        return True
    lead = _lead(rounds, rules, among)
    found = [paired(rounds, c, lead, rules) for c in among if c != lead]
    if all(one is not None and one.shown_equal for one in found):
        return True
    if len(rounds) >= rules.most_rounds:
        return True
    return len(rounds) >= rules.rounds and all(one is not None and one.pairs >= rules.rounds for one in found)


def _standing(
    rounds: Sequence[Round], rules: Rules, out: Mapping[int, Out], *, beaten: bool, decided: bool
) -> Standing:
    running = _running(rules, out)
    against = {c: found for c in range(1, rules.contestants) if (found := paired(rounds, c, 0, rules)) is not None}
    left = [c for c in running if c or not beaten]
    if len(running) <= 1:
        # Nobody to race with, or no baseline to race against.
        decided = True
    lead = _lead(rounds, rules, left) if left and len(rounds) >= LEAST_ROUNDS else (left[0] if len(left) == 1 else None)
    return Standing(
        rounds=len(rounds),
        decided=decided,
        lead=lead,
        won=beaten and lead is not None and lead in against and against[lead].called == "faster",
        equals=(lead, *(c for c in left if c != lead)) if lead is not None else (),
        running=() if decided else tuple(running),
        out=out,
        against_baseline=against,
    )
