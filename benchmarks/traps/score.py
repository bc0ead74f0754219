"""What a choice is worth, by the truth of whole runs. Arithmetic alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# A claimed speed-up that exceeds the true one by more than this share is a false gain; two launches differ by less.
FALSE_GAIN = 0.10


@dataclass(frozen=True, kw_only=True)
class Truth:
    """A whole run of some settings: its rate, or why it has none."""

    samples_per_s: float | None
    broke: str | None = None

    @property
    def worth(self) -> float:
        """A run that does not come to its end is worth nothing, whatever its pace was."""
        return 0.0 if self.broke or self.samples_per_s is None else self.samples_per_s


@dataclass(frozen=True, kw_only=True)
class Score:
    # 0: nothing faster could have been chosen. 1: the chosen run does not come to its end.
    regret: float
    broke: str | None
    claimed: float | None
    true: float
    seconds: float

    @property
    def is_false_gain(self) -> bool:
        # Who claims nothing claims nothing false: a loss that was not foreseen is in the regret.
        return self.claimed is not None and self.claimed > (1 + FALSE_GAIN) * max(1.0, self.true)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Over the traps that a tuner was made for."""

    traps: int
    mean_regret: float
    worst_regret: float
    within_5_percent: int
    broken: int
    false_gains: int
    seconds: float


def score(
    truths: Mapping[str, Truth], *, baseline: str, choice: str | None, claimed: float | None, seconds: float
) -> Score:
    """Without a choice the author's own settings stay: that is what its user would do."""
    best = max(truth.worth for truth in truths.values())
    chosen = truths[choice if choice is not None else baseline]
    own = truths[baseline].worth
    if best <= 0 or own <= 0:
        raise ValueError("neither the best nor the author's own settings may fail: nothing could be compared")
    return Score(
        regret=1.0 - chosen.worth / best,
        broke=chosen.broke,
        claimed=claimed,
        true=chosen.worth / own,
        seconds=seconds,
    )


def summary(scores: Sequence[Score]) -> Summary:
    regrets = [one.regret for one in scores]
    return Summary(
        traps=len(scores),
        mean_regret=sum(regrets) / len(regrets),
        worst_regret=max(regrets),
        within_5_percent=sum(regret <= 0.05 for regret in regrets),
        broken=sum(one.broke is not None for one in scores),
        false_gains=sum(one.is_false_gain for one in scores),
        seconds=sum(one.seconds for one in scores),
    )
