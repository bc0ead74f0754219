"""The end of a walk and of a search: what won is launched once more for longer, and races the user's own settings, and
leaders that look faster still, where single launches leave a doubt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from vtune.analysis.choose import choose
from vtune.analysis.comparable import has_rate, lived_longer, settings_of
from vtune.analysis.race import DELTA, EXTRA_ROUNDS, LEAST_ROUNDS, ROUNDS
from vtune.analysis.rungs import ruled_out
from vtune.domain.choice import Choice
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.machine import Machine
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal
from vtune.strategies.known import Known
from vtune.strategies.race_plan import RacePlan, plan_race
from vtune.strategies.turned import turned

# Winners that are launched for longer, each the fastest of what was left where one did not hold; then a race.
MOST_PROOFS = 2
MOST_LAUNCHES = MOST_PROOFS + 2 * (ROUNDS + EXTRA_ROUNDS)
# Leaders that look faster than what won, and race with it; a larger field has fewer rounds, and not more launches.
MOST_RIVALS = 2
# Of what single launches do not show: ten launches or more for less than this are not worth it.
WORTH_A_RACE = 1.04
# Of the interval's lower end, where no launch showed it to be faster.
NEARLY_SHOWN = 0.95
# Times the steps of a trial at most: a worker that dies, a memory that fills, a queue that empties, take their time.
LONGER = 2


@dataclass(frozen=True, kw_only=True)
class Found:
    """What there is to confirm."""

    experiment: Experiment
    machine: Machine
    baseline: TrialRecord | None
    own: Mapping[str, Scalar]
    # By these trials, and not by the race's: the first rounds of a race must not end it.
    trials: Sequence[int]
    # What won on the way, and what was asked for to have it.
    winner: TrialRecord | None
    settings: Mapping[str, Scalar]

    @property
    def steps(self) -> int:
        return LONGER * self.experiment.window.max_steps

    def choice(self, records: Sequence[TrialRecord]) -> Choice:
        """The same records are asked about several times, and they may be thousands."""
        of = tuple(one.trial for one in records)
        if of not in self._choices:
            machine, limits = self.machine, self.experiment.limits
            self._choices[of] = choose(records, limits=limits, ram_total_bytes=machine.ram_bytes, cores=machine.cores)
        return self._choices[of]

    @cached_property
    def _choices(self) -> dict[tuple[int, ...], Choice]:
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    # None where nothing is left to launch.
    proposal: Proposal | None
    best: TrialRecord | None
    settings: Mapping[str, Scalar]
    # With those that confirmed.
    trials: tuple[int, ...]
    # Launches still to come, at least and at most.
    left: tuple[int, int] = (0, 0)


def confirmation_of(
    found: Found, known: Known, history: Sequence[TrialRecord], *, launches: bool = True
) -> Confirmation:
    """Without `launches`, by what is there."""
    trials, counted = list(found.trials), frozenset(found.trials)
    own = [one for one in known.records if one.trial in counted]
    proposal, race = None, None
    if launches:
        for _ in range(MOST_PROOFS):
            winner = _winner(found, own)
            if winner is None:
                break
            proof = _proof(found, known, winner)
            if proof is None:
                proposal = _once_more(found, winner)
                break
            trials.append(proof.trial)
            if proof in own or ruled_out(proof, found.experiment.limits, found.machine.ram_bytes) is None:
                break
            own.append(proof)
        if proposal is None:
            race = _race(found, own, history)
            proposal = race.race.propose(history) if race is not None else None
        trials += [leg.trial for leg in (race.race.legs(history) if race is not None else ())]
    counted = frozenset(trials)
    best = found.choice([one for one in known.records if one.trial in counted]).best
    return Confirmation(
        proposal=proposal,
        best=best if best is not None else found.winner,
        settings=_asked_of(best, found) if best is not None else found.settings,
        trials=tuple(dict.fromkeys(trials)),
        left=(0, 0) if proposal is None else _left(race, history),
    )


def _winner(found: Found, own: Sequence[TrialRecord]) -> TrialRecord | None:
    """Other than the user's own; also what won on the way, where so many comparisons leave too little to choose by, and
    what no launch showed to be faster and all the same looks it."""
    baseline, choice = found.baseline, found.choice(own)
    if baseline is None or choice.best is None:
        return None
    if settings_of(choice.best) != settings_of(baseline):
        return choice.best
    tied = {one.trial for one in choice.lost if one.reason == "tie"}
    likely = [
        one
        for one in own
        if one.trial in tied and not lived_longer(one) and choice.ratios[one.trial].value >= WORTH_A_RACE
    ]
    if found.winner in likely:
        return found.winner
    # Among neighbours that leave everything open a race would not end.
    nearly = [one for one in likely if (ends := choice.ratios[one.trial].ci95) is not None and ends[0] > NEARLY_SHOWN]
    return max(nearly, key=lambda one: choice.ratios[one.trial].value, default=None)


def _proof(found: Found, known: Known, winner: TrialRecord) -> TrialRecord | None:
    """A launch of it that was longer, or was to be."""
    asked = _asked_of(winner, found)
    return next(
        (
            one
            for one in known.launches(asked, {**found.own, **asked})
            if one.measurement.steps_measured >= found.steps or (one.origin == "confirm" and one.race is None)
        ),
        None,
    )


def _once_more(found: Found, winner: TrialRecord) -> Proposal:
    return Proposal(
        settings=_asked_of(winner, found),
        reason="the winner once more, for longer: what a short trial does not live to see",
        origin="confirm",
        steps=(found.steps, found.steps),
    )


def _race(found: Found, own: Sequence[TrialRecord], history: Sequence[TrialRecord]) -> RacePlan | None:
    baseline, winner, choice = found.baseline, _winner(found, own), found.choice(own)
    if baseline is None or winner is None or baseline.trial in choice.over or not has_rate(baseline):
        return None
    rivals = _rivals(own, baseline, winner, choice)
    if turned(winner) == turned(baseline) or (choice.best is winner and not choice.unconfirmed and not rivals):
        return None
    rounds = 2 * (ROUNDS + EXTRA_ROUNDS) // (2 + len(rivals)) - EXTRA_ROUNDS
    return plan_race(history, baseline, winner, rounds=rounds, cores=found.machine.cores, beside=rivals)


def _rivals(
    own: Sequence[TrialRecord], baseline: TrialRecord, winner: TrialRecord, choice: Choice
) -> list[TrialRecord]:
    """Not told from what won by single launches, and measured to be faster by more than what counts as equal. Each
    settings once."""
    won = choice.ratios.get(winner.trial)
    if won is None or choice.best is not winner:
        return []
    asked = [turned(baseline), turned(winner)]
    found: list[TrialRecord] = []
    tied = [one for one in own if one.trial in choice.tie and one.trial in choice.ratios and not lived_longer(one)]
    for one in sorted(tied, key=lambda one: choice.ratios[one.trial].value, reverse=True):
        if choice.ratios[one.trial].value > won.value * (1 + DELTA) and turned(one) not in asked:
            found.append(one)
            asked.append(turned(one))
    return found[:MOST_RIVALS]


def _left(race: RacePlan | None, history: Sequence[TrialRecord]) -> tuple[int, int]:
    if race is None:
        # The winner for longer, and whatever follows it.
        return 1, MOST_LAUNCHES
    if race.known is not None:
        # For two trials by themselves there would be no doubt; these are two of many.
        return 2 * LEAST_ROUNDS, 2 * race.race.rules(history).most_rounds
    return race.least_launches, race.launches


def _asked_of(best: TrialRecord, found: Found) -> Mapping[str, Scalar]:
    if found.winner is not None and settings_of(best) == settings_of(found.winner):
        return found.settings
    return {**found.experiment.settings, **turned(best)}
