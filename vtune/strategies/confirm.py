"""The end of a walk and of a search: what won is launched once more for longer, and races what it has to beat where
single launches leave a doubt: the user's own settings, leaders that look faster still, and where it is another training
the best that trains the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from vtune.analysis.choose import choose
from vtune.analysis.comparable import has_rate, lived_longer, settings_of
from vtune.analysis.compare import BEYOND_DOUBT
from vtune.analysis.race import DELTA, EXTRA_ROUNDS, LEAST_ROUNDS, ROUNDS
from vtune.analysis.rungs import ruled_out
from vtune.domain.choice import Choice, Ratio
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.machine import Machine
from vtune.domain.record import TrialRecord
from vtune.domain.trial import CONFIRM, OWN_AGAIN, SAME_TRAINING, Proposal
from vtune.knobs.registry import same_knobs
from vtune.strategies.known import Known
from vtune.strategies.race_plan import RacePlan, plan_race
from vtune.strategies.train_alike import MOST_ALIKE, alike_to_measure
from vtune.strategies.turned import turned

# Winners that are launched for longer, each the fastest of what was left where one did not hold; then a race, and the
# one that only the race made the winner.
MOST_PROOFS = 2
# And the user's own settings once more.
MOST_LAUNCHES = 1 + MOST_ALIKE + MOST_PROOFS + 2 * (ROUNDS + EXTRA_ROUNDS) + 1
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
    # Trials of steps that a walk took back.
    rolled_back: Collection[int] = ()
    # All that could be asked for: of it the best is looked for that trains as the user's own settings do.
    candidates: Sequence[Mapping[str, Scalar]] = ()

    @property
    def steps(self) -> int:
        return LONGER * self.experiment.window.max_steps

    def choice(self, records: Sequence[TrialRecord]) -> Choice:
        """The same records are asked about several times, and they may be thousands."""
        of = tuple(one.trial for one in records)
        if of not in self._choices:
            machine, experiment = self.machine, self.experiment
            self._choices[of] = choose(
                records,
                limits=experiment.limits,
                ram_total_bytes=machine.ram_bytes,
                cores=machine.cores,
                same=same_knobs(experiment.knobs),
                rolled_back=self.rolled_back,
            )
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
        beside = [one for one in known.records if one.origin in (SAME_TRAINING, OWN_AGAIN) and one.trial not in counted]
        own += beside
        trials += [one.trial for one in beside]
        proposal = _own_once_more(found, own) or _proved(found, known, own, trials)
        luck = proposal is None and _was_luck(found, known, own)
        if proposal is None and not luck:
            proposal = _beside(found, known, own, beside)
        if proposal is None and not luck:
            race = _race(found, own, history)
            legs = race.race.legs(history) if race is not None else []
            trials += [leg.trial for leg in legs]
            proposal = race.race.propose(history) if race is not None else None
            if proposal is None and legs:
                proposal = _proved(found, known, [*own, *legs], trials)
    counted = frozenset(trials)
    best = found.choice([one for one in known.records if one.trial in counted]).best
    return Confirmation(
        proposal=proposal,
        best=best if best is not None else found.winner,
        settings=_asked_of(best, found) if best is not None else found.settings,
        trials=tuple(dict.fromkeys(trials)),
        left=(0, 0) if proposal is None else _left(race, history),
    )


def _own_once_more(found: Found, own: Sequence[TrialRecord]) -> Proposal | None:
    """What nothing shows to be faster looks it where the single launch that it is compared with was an unlucky one: one
    more of them often saves a race."""
    baseline, winner, best = found.baseline, _winner(found, own), found.choice(own).best
    if baseline is None or winner is None or best is None or settings_of(best) != settings_of(baseline):
        return None
    if any(one.trial != baseline.trial and turned(one) == turned(baseline) for one in own):
        return None
    why = f"your own settings once more: trial {winner.trial} looks faster, and nothing shows it"
    return Proposal(settings=_asked_of(baseline, found), reason=why, origin=OWN_AGAIN)


def _beside(found: Found, known: Known, own: Sequence[TrialRecord], beside: Sequence[TrialRecord]) -> Proposal | None:
    """Where another training leads, what trains as the user's settings do is measured before anything is said."""
    leader, baseline, choice = _leader(found, own), found.baseline, found.choice(own)
    if leader is None or baseline is None or leader.trial not in choice.other_trainings:
        return None
    if sum(one.origin == SAME_TRAINING for one in beside) >= MOST_ALIKE:
        return None
    wanted = alike_to_measure(
        own, leader, choice, own=found.own, experiment=found.experiment, machine=found.machine,
        candidates=found.candidates,
    )  # fmt: skip
    if wanted is None or known.launches(wanted, {**found.own, **wanted}):
        return None
    why = f"the best that trains as your own settings do, beside trial {leader.trial}, which does not"
    return Proposal(settings=wanted, reason=why, origin=SAME_TRAINING)


def _proved(found: Found, known: Known, own: list[TrialRecord], trials: list[int]) -> Proposal | None:
    """The winner's longer launch; where it did not hold, the next one's. Adds what is there of them."""
    for _ in range(MOST_PROOFS):
        winner = _winner(found, own)
        if winner is None:
            return None
        proof = _proof(found, known, winner)
        if proof is None:
            return _once_more(found, winner)
        trials.append(proof.trial)
        if proof in own or ruled_out(proof, found.experiment.limits, found.machine.ram_bytes) is None:
            return None
        own.append(proof)
    return None


def _leader(found: Found, own: Sequence[TrialRecord]) -> TrialRecord | None:
    """The winner, or what may come out of a race as one."""
    baseline, winner, choice = found.baseline, _winner(found, own), found.choice(own)
    if winner is None or baseline is None:
        return None
    rivals = [winner, *_rivals(own, baseline, winner, choice)]
    return next((one for one in rivals if one.trial in choice.other_trainings), winner)


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
            if one.measurement.steps_measured >= found.steps or (one.origin == CONFIRM and one.race is None)
        ),
        None,
    )


def _once_more(found: Found, winner: TrialRecord) -> Proposal:
    return Proposal(
        settings=_asked_of(winner, found),
        reason="the winner once more, for longer: what a short trial does not live to see",
        origin=CONFIRM,
        steps=(found.steps, found.steps),
    )


def _race(found: Found, own: Sequence[TrialRecord], history: Sequence[TrialRecord]) -> RacePlan | None:
    baseline, winner, choice = found.baseline, _winner(found, own), found.choice(own)
    if baseline is None or winner is None or baseline.trial in choice.over or not has_rate(baseline):
        return None
    if turned(winner) == turned(baseline):
        return None
    field = [winner, *_rivals(own, baseline, winner, choice)]
    against_own = choice.best is not winner or bool(choice.unconfirmed)
    same = choice.best_same
    if winner.trial in choice.other_trainings and same is not None and settings_of(same) != settings_of(baseline):
        over = choice.over_same[winner.trial]
        if against_own or not _beyond_doubt(over):
            field.append(same)
    if len(field) == 1 and not against_own:
        return None
    if same in field and len(field) > 1 and all(_beyond_doubt(choice.ratios.get(one.trial)) for one in field):
        # Nobody doubts that each is faster than the user's own: only these have to be told apart.
        field = [one for one in field if one is same] + [one for one in field if one is not same]
    else:
        field = [baseline, *field]
    first, second, *beside = field
    rounds = 2 * (ROUNDS + EXTRA_ROUNDS) // len(field) - EXTRA_ROUNDS
    return plan_race(history, first, second, rounds=rounds, cores=found.machine.cores, beside=beside)


def _was_luck(found: Found, known: Known, own: Sequence[TrialRecord]) -> bool:
    """What nothing showed to be faster came, in its longer launch, to no more than the user's own settings."""
    winner, choice = _winner(found, own), found.choice(own)
    if winner is None or winner is choice.best or choice.baseline is None:
        return False
    proof = _proof(found, known, winner)
    longer = proof.measurement.samples_per_s if proof is not None else None
    usual = choice.baseline.measurement.samples_per_s
    return longer is not None and usual is not None and longer < usual * (1 + DELTA)


def _beyond_doubt(ratio: Ratio | None) -> bool:
    return ratio is not None and ratio.ci95 is not None and ratio.ci95[0] > BEYOND_DOUBT


def _rivals(
    own: Sequence[TrialRecord], baseline: TrialRecord, winner: TrialRecord, choice: Choice
) -> list[TrialRecord]:
    """Not told from what won by single launches, and measured to be faster by more than what counts as equal; what has
    to be shown, by more than a race costs. Each settings once."""
    won = choice.ratios.get(winner.trial)
    if won is None or choice.best is not winner:
        return []
    asked = [turned(baseline), turned(winner)]
    found: list[TrialRecord] = []
    tied = [one for one in own if one.trial in choice.tie and one.trial in choice.ratios and not lived_longer(one)]
    for one in sorted(tied, key=lambda one: choice.ratios[one.trial].value, reverse=True):
        least = WORTH_A_RACE if one.trial in choice.over_same else 1 + DELTA
        if choice.ratios[one.trial].value > won.value * least and turned(one) not in asked:
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
    # Of several, the longer launch of what only the race made the winner may follow.
    several = len(race.race.field) > 2
    return max(1, race.least_launches), race.launches + several


def _asked_of(best: TrialRecord, found: Found) -> Mapping[str, Scalar]:
    if found.winner is not None and settings_of(best) == settings_of(found.winner):
        return found.settings
    return {**found.experiment.settings, **turned(best)}
