"""The race as a strategy: fresh launches round by round, each round in its own random order. The journal is its only
memory, so a race that was interrupted goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vtune.analysis.comparable import contradicting, has_rate
from vtune.analysis.laps import legs_of, rounds_of, rules_of
from vtune.analysis.race import DELTA, ROUNDS, Rules, Standing, judge_race
from vtune.domain.effects import Scalar
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal, RaceLeg

BASELINE = 0


@dataclass(frozen=True, slots=True)
class Race:
    """`contestants` are the settings that each launch asks for; the baseline is always one more. `budget_s` counts the
    seconds of this race's trials."""

    contestants: Sequence[Mapping[str, Scalar]]
    baseline: Mapping[str, Scalar]
    seed: int = 0
    rounds: int = ROUNDS
    delta: float = DELTA
    budget_s: float | None = None
    # Of the machine, to tell how much of it others took.
    cores: float | None = None
    # What each of the field has to run with, whatever was asked: the settings of the trial that it stands for.
    # Empty: whatever comes of what was asked.
    expected: Sequence[Mapping[str, Scalar]] = ()
    # The last trial that the journal had when this call began.
    already: int = 0
    # What others disturbed in this call is not launched again, and decides nothing.
    anyway: bool = False

    @property
    def field(self) -> tuple[Mapping[str, Scalar], ...]:
        """Each settings once, the baseline first."""
        known: dict[str, Mapping[str, Scalar]] = {}
        for settings in (self.baseline, *self.contestants):
            known.setdefault(_text(settings), settings)
        return tuple(known.values())

    @property
    def id(self) -> str:
        """The same question has the same name: a race that was stopped is found again in the journal. Not by its rounds
        and its delta: who asks for more rounds wants this race to go on."""
        asked = json.dumps([self.seed, *map(_text, self.field)])
        return hashlib.sha256(asked.encode()).hexdigest()[:12]

    def rules(self, history: Sequence[TrialRecord]) -> Rules:
        """With what it was planned as before: it may become longer and stricter, and never the reverse."""
        legs = self.legs(history)
        if legs:
            return rules_of(legs, rounds=self.rounds, delta=self.delta)
        return Rules(contestants=len(self.field), rounds=self.rounds, delta=self.delta)

    def legs(self, history: Sequence[TrialRecord]) -> list[TrialRecord]:
        return legs_of(history, self.id)

    def standing(self, history: Sequence[TrialRecord]) -> Standing:
        return judge_race(rounds_of(self.legs(history), self.cores), self.rules(history))

    def propose(self, history: Sequence[TrialRecord]) -> Proposal | None:
        legs, standing = self.legs(history), self.standing(history)
        if standing.decided or self._spent(legs) or self.stray(history) is not None:
            return None
        number = standing.rounds + 1
        done = [*legs, *(self._disturbed(history) if self.anyway else ())]
        launched = {leg.race.contestant for leg in done if leg.race is not None and leg.race.round == number}
        order = [contestant for contestant in self._order(number) if contestant in standing.running]
        next_up = next((contestant for contestant in order if contestant not in launched), None)
        if next_up is None:
            return None
        rules, others = self.rules(history), len(standing.running) - 1
        name = "the baseline" if next_up == BASELINE else _named(self.field[next_up])
        against = f", against {others} others" if others > 1 else ""
        return Proposal(
            settings=self.field[next_up],
            reason=f"{_which(number, rules)}: {name}{against}",
            origin="confirm",
            race=RaceLeg(
                id=self.id,
                round=number,
                contestant=next_up,
                contestants=rules.contestants,
                rounds=rules.rounds,
                delta=rules.delta,
            ),
        )

    def stray(self, history: Sequence[TrialRecord]) -> tuple[TrialRecord, Mapping[str, Scalar]] | None:
        """A launch that ran with other settings than it was to stand for, and those: its rounds compare something
        else. What failed is out by its failure."""
        for leg in self.legs(history):
            if self.expected and leg.race is not None and has_rate(leg):
                expected = self.expected[leg.race.contestant]
                if contradicting(leg.settings, expected):
                    return leg, expected
        return None

    def _disturbed(self, history: Sequence[TrialRecord]) -> list[TrialRecord]:
        own = (one for one in history if one.race is not None and one.race.id == self.id)
        return [one for one in own if one.on_busy_machine and one.trial > self.already]

    def _order(self, number: int) -> list[int]:
        """By the race's name and the round alone: the same after a resume."""
        order = list(range(len(self.field)))
        random.Random(f"{self.id}:{number}").shuffle(order)
        return order

    def _spent(self, legs: Sequence[TrialRecord]) -> bool:
        """Also when the next launch, as long as those before, would not fit any more."""
        if self.budget_s is None or not legs:
            return self.budget_s is not None and self.budget_s <= 0
        used = sum(leg.seconds for leg in legs)
        return used + used / len(legs) > self.budget_s


def _which(number: int, rules: Rules) -> str:
    if number <= rules.rounds:
        return f"round {number} of {rules.rounds}"
    return f"round {number}, in place of one whose launches read their data differently"


def _text(settings: Mapping[str, Scalar]) -> str:
    return json.dumps(dict(sorted(settings.items())))


def _named(settings: Mapping[str, Scalar]) -> str:
    return ", ".join(f"{name}={json.dumps(value)}" for name, value in settings.items()) or "the current settings"
