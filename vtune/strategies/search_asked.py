"""What is asked of a search, and what has been done of it by a journal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from vtune.analysis.comparable import has_rate
from vtune.domain.experiment import Experiment
from vtune.domain.machine import Machine
from vtune.domain.numbers import seconds
from vtune.domain.record import TrialRecord
from vtune.domain.search import Sampler
from vtune.domain.trial import TrialStatus, confirms
from vtune.strategies.confirm import LONGER

ORIGIN = "search"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    experiment: Experiment
    machine: Machine
    sampler: Sampler = "auto"
    # With the baseline; confirmations come extra.
    trials: int = 20
    # Of the launches' own seconds, confirmations and a scout run included.
    budget_s: float | None = None
    confirm: bool = True
    # Trials of the journal that count for nothing: they ran another command, config or code than now.
    left_out: frozenset[int] = frozenset()
    seed: int = 0
    # The last trial that the journal had when this call began.
    already: int = 0
    # That a scout run took, which is no trial.
    scout_s: float = 0.0
    # What others disturbed in this call is not run again: it counts as measured, and decides nothing.
    anyway: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    # In one sentence.
    why: str
    # Trials that are left are not wanted; else they are used up, or there is no time for them.
    gives_back: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    # Trials of it, the baseline included whoever launched it.
    counted: int
    used_s: float
    # Of one more trial, as long as those before.
    trial_s: float

    def spent(self, asked: Asked, *, claims: bool) -> Ended | None:
        """Why no more settings are tried, by what may be spent alone. `claims`: others than the user's own lead."""
        if self.counted >= asked.trials:
            more = f": {self.counted} were there" if self.counted > asked.trials else ""
            return Ended(why=f"all {asked.trials} trials are used{more}", gives_back=False)
        # What is found is launched once more for longer: a budget without that would end with a claim.
        kept_s = LONGER * self.trial_s if asked.confirm and claims else 0.0
        return self.passes(asked, self.trial_s, kept_s=kept_s)

    def passes(self, asked: Asked, next_s: float, *, kept_s: float = 0.0) -> Ended | None:
        used_s = self.used_s + asked.scout_s
        if asked.budget_s is None or used_s + next_s + kept_s <= asked.budget_s:
            return None
        kept = f", {seconds(kept_s)} are kept for the winner's second launch" if kept_s else ""
        return Ended(
            why=f"another launch of about {seconds(next_s)} would pass the budget of {seconds(asked.budget_s)}"
            f" ({seconds(used_s)} used{kept})",
            gives_back=False,
        )


def done_of(history: Sequence[TrialRecord], baseline: TrialRecord | None, *, counts: Collection[int]) -> Done:
    """`counts`: trials that answer what this search may ask; those of other settings, or under a tighter limit, took
    time of the budget and none of the trials. Confirmations of before its first trial are another walk's."""
    own = [one for one in history if one.origin == ORIGIN]
    first = min((one.trial for one in own), default=None)
    told = [one for one in own if one.status is not TrialStatus.INTERRUPTED]
    confirmed = [one for one in history if confirms(one.origin) and first is not None and one.trial > first]
    told = [one for one in told if one.trial in counts]
    launched = list({one.trial: one for one in (*told, *([baseline] if baseline is not None else []))}.values())
    ran = [one.seconds for one in launched if has_rate(one)] or [one.seconds for one in launched]
    return Done(
        counted=len(launched),
        used_s=sum(one.seconds for one in (*own, *confirmed)),
        trial_s=fmean(ran) if ran else 0.0,
    )


def settings_words(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={str(value).lower()}" for name, value in settings.items())
