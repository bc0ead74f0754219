"""Runs of searches as figures, and the figures as Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

AFTER_TRIALS = (5, 10, 15, 20)
AFTER_MINUTES = (5, 10, 20, 40)
NEAR, NEARER = 0.05, 0.02
Run = Sequence[Mapping[str, Any]]


def figures(runs: Sequence[Run], own: Sequence[float]) -> dict[str, Any]:
    """Of runs of one search; `own`: what the user's settings leave to the best, in the training of each run."""
    both = list(zip(runs, own, strict=True))
    told: dict[str, Any] = {"runs": len(runs)}
    for share in (NEAR, NEARER):
        name = f"{share:.0%}"
        told[f"within {name} by trials"] = {
            str(n): _share([_after(run, n) <= share for run in runs]) for n in AFTER_TRIALS
        }
        told[f"within {name} by minutes"] = {
            str(n): _share([_by(run, 60 * n, start) <= share for run, start in both]) for n in AFTER_MINUTES
        }
        for what, words in (("regret", "trials to"), ("seen", "launches to")):
            # Of each run, for medians over several trainings; None where it never came so near.
            told[f"{words} {name}"] = [_reached(run, share, what) for run in runs]
    told["within 5% by 12"] = _share([_after(run, 12) <= NEAR for run in runs])
    told["trials"] = sum(len(run) for run in runs) / len(runs)
    told["minutes"] = sum(run[-1]["seconds"] for run in runs) / 60 / len(runs)
    told["regret"] = sum(run[-1]["regret"] for run in runs) / len(runs)
    for name in ("over", "foreseen", "out_of", "false_alarm"):
        told[name] = sum(row[name] for run in runs for row in run) / len(runs)
    return told


def pool(those: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Figures of several trainings as one, each run counted once."""
    if not those:
        return None
    runs = sum(one["runs"] for one in those)

    def pooled(values: list[Any], weights: list[int]) -> Any:
        if isinstance(values[0], Mapping):
            return {key: pooled([value[key] for value in values], weights) for key in values[0]}
        if isinstance(values[0], list):
            return [one for value in values for one in value]
        return sum(value * weight for value, weight in zip(values, weights, strict=True)) / runs

    weights = [one["runs"] for one in those]
    names = [name for name, value in those[0].items() if not isinstance(value, str) and name != "runs"]
    return {"runs": runs, **{name: pooled([one[name] for one in those], weights) for name in names}}


def _after(run: Run, trials: int) -> float:
    """What ended before stays where it came to."""
    return float(run[min(trials, len(run)) - 1]["regret"])


def _by(run: Run, seconds: float, own: float) -> float:
    """Before the first trial has ended there are the user's own settings."""
    ended = [row["regret"] for row in run if row["seconds"] <= seconds]
    return float(ended[-1]) if ended else own


def _reached(run: Run, share: float, what: str) -> int | None:
    """The trial from which on it is so near, and stays."""
    far = [number for number, row in enumerate(run, 1) if row[what] > share]
    first = far[-1] + 1 if far else 1
    return first if first <= len(run) else None


def _share(those: Sequence[bool]) -> float:
    return sum(those) / len(those)


def middle(reached: Sequence[int | None]) -> str:
    value = median(math.inf if one is None else one for one in reached)
    return f"{value:g}" if math.isfinite(value) else "–"


HEAD = (
    "| search | within 5 %: 5 trials | 10 | 12 | 15 | 20 | within 2 %: 5 | 10 | 15 | 20 | median trials to 5 % | to 2 %"
    " | launches until one is within 2 % | mean regret | trials | over a limit | of them foreseeable | out of memory"
    " | false alarms |"
)
BY_TIME = "| search | " + " | ".join(f"within 5 %: {n} min" if n == 5 else f"{n} min" for n in AFTER_MINUTES)
BY_TIME += " | " + " | ".join(f"within 2 %: {n} min" if n == 5 else f"{n} min" for n in AFTER_MINUTES)
BY_TIME += " | minutes of a run |"


def by_trials(told: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return _table(HEAD, [_row(name, one) for name, one in told.items()])


def by_minutes(told: Mapping[str, Mapping[str, Any]]) -> list[str]:
    rows = []
    for name, one in told.items():
        near, nearer = one["within 5% by minutes"].values(), one["within 2% by minutes"].values()
        rows.append([name, *map(_percent, (*near, *nearer)), f"{one['minutes']:.0f}"])
    return _table(BY_TIME, rows)


def by_training(told: Mapping[str, Mapping[str, Mapping[str, Any]]], names: Sequence[str]) -> list[str]:
    """`told`: by training, then by search."""
    head = "| training | " + " | ".join(names) + " |"
    rows = []
    for training, searches in told.items():
        rows.append([training, *(_cell(searches[name]) if name in searches else "" for name in names)])
    return _table(head, rows)


def _cell(one: Mapping[str, Any]) -> str:
    words = f"{_percent(one['within 5% by trials']['10'])}, {middle(one['trials to 2%'])}"
    return f"{words}, {one['over']:.1f}" if one["over"] else words


def _row(name: str, one: Mapping[str, Any]) -> list[str]:
    near = dict(one["within 5% by trials"])
    shares = [near["5"], near["10"], one["within 5% by 12"], near["15"], near["20"]]
    shares += one["within 2% by trials"].values()
    medians = (one["trials to 5%"], one["trials to 2%"], one["launches to 2%"])
    numbers = [f"{one[what]:.2f}" for what in ("over", "foreseen", "out_of", "false_alarm")]
    return [
        name,
        *map(_percent, shares),
        *map(middle, medians),
        f"{100 * one['regret']:.1f} %",
        f"{one['trials']:.1f}",
        *numbers,
    ]


def _table(head: str, rows: Sequence[Sequence[str]]) -> list[str]:
    return [head, "|" + "---|" * (head.count("|") - 1), *(f"| {' | '.join(row)} |" for row in rows)]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
