"""The end of a walk: what won is launched once more for longer, and races the user's own settings where single launches
leave a doubt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vtune.analysis.choose import choose
from vtune.analysis.comparable import has_rate, settings_of
from vtune.analysis.race import LEAST_ROUNDS
from vtune.analysis.rungs import ruled_out
from vtune.domain.choice import Choice
from vtune.domain.effects import Scalar
from vtune.domain.phases import Walk
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal
from vtune.strategies.known import Known
from vtune.strategies.race_plan import RacePlan, plan_launches, turned
from vtune.strategies.walk_path import AFTER_THE_PHASES, MOST_PROOFS, Path

# Of what single launches do not show: ten launches or more for less than this are not worth it.
WORTH_A_RACE = 1.04
# Times the steps of a trial at most: a worker that dies, a memory that fills, take their time.
LONGER = 2


def end_of(path: Path, known: Known, history: Sequence[TrialRecord]) -> Walk:
    """What is found by the walk's own trials, and not by the race's: the first rounds of a race must not end it."""
    course = path.course
    own = [one for one in known.records if one.trial in path.trials]
    proposal, race = None, None
    if course.confirm:
        for _ in range(MOST_PROOFS):
            winner = _winner(path, own)
            if winner is None:
                break
            proof = _proof(path, known, winner)
            if proof is None:
                proposal = _once_more(path, winner)
                break
            path.note(proof)
            if proof in own or ruled_out(proof, course.experiment.limits, course.machine.ram_bytes) is None:
                break
            own.append(proof)
        if proposal is None:
            race = _race(path, own, history)
            proposal = race.race.propose(history) if race is not None else None
        for leg in race.race.legs(history) if race is not None else ():
            path.note(leg)
    choice = _choice(path, [one for one in known.records if one.trial in path.trials])
    if choice.best is not None:
        path.settings, path.best = _asked_of(choice.best, path), choice.best
    if proposal is None:
        return path.walk(None)
    path.stage = "confirm"
    return path.walk(proposal, _left(race, history))


def _winner(path: Path, own: Sequence[TrialRecord]) -> TrialRecord | None:
    """Other than the user's own; also what won on the way, where so many comparisons leave too little to choose by."""
    baseline, choice = path.baseline, _choice(path, own)
    if baseline is None or choice.best is None:
        return None
    if settings_of(choice.best) != settings_of(baseline):
        return choice.best
    winner = path.best
    tied = winner is not None and any(one.trial == winner.trial and one.reason == "tie" for one in choice.lost)
    return winner if winner and tied and choice.ratios[winner.trial].value >= WORTH_A_RACE else None


def _proof(path: Path, known: Known, winner: TrialRecord) -> TrialRecord | None:
    """A launch of it that was longer, or was to be."""
    effective = {**path.own, **_asked_of(winner, path)}
    steps = LONGER * path.course.experiment.window.max_steps
    return next(
        (
            one
            for one in known.launches(_asked_of(winner, path), effective)
            if one.measurement.steps_measured >= steps or (one.origin == "confirm" and one.race is None)
        ),
        None,
    )


def _once_more(path: Path, winner: TrialRecord) -> Proposal:
    steps = LONGER * path.course.experiment.window.max_steps
    return Proposal(
        settings=_asked_of(winner, path),
        reason="the winner once more, for longer: what a short trial does not live to see",
        origin="confirm",
        steps=(steps, steps),
    )


def _race(path: Path, own: Sequence[TrialRecord], history: Sequence[TrialRecord]) -> RacePlan | None:
    baseline, winner, choice = path.baseline, _winner(path, own), _choice(path, own)
    if baseline is None or winner is None or baseline.trial in choice.over or not has_rate(baseline):
        return None
    if turned(winner) == turned(baseline) or (choice.best is winner and not choice.unconfirmed):
        return None
    return plan_launches(history, baseline, winner, cores=path.course.machine.cores)


def _left(race: RacePlan | None, history: Sequence[TrialRecord]) -> tuple[int, int]:
    if race is None:
        # The winner for longer, and whatever follows it.
        return 1, AFTER_THE_PHASES
    if race.known is not None:
        # For two trials by themselves there would be no doubt; these are two of many.
        return 2 * LEAST_ROUNDS, 2 * race.race.rules(history).most_rounds
    return race.least_launches, race.launches


def _choice(path: Path, records: Sequence[TrialRecord]) -> Choice:
    machine, limits = path.course.machine, path.course.experiment.limits
    return choose(records, limits=limits, ram_total_bytes=machine.ram_bytes, cores=machine.cores)


def _asked_of(best: TrialRecord, path: Path) -> Mapping[str, Scalar]:
    if path.best is not None and settings_of(best) == settings_of(path.best):
        return path.settings
    return {**path.course.experiment.settings, **turned(best)}
