"""Simulated loaders as a part of the whole: what `simulated.py` finds, beside its bars."""

from __future__ import annotations

from typing import Any

import simulated
from launches import Bench
from table import Claim, percent

# "Thousands of trials a minute", on one core.
LEAST_A_MINUTE = 2000


def measure(bench: Bench) -> dict[str, Any]:
    bench.tell("several minutes, on all cores")
    return simulated.figures(quick=bench.quick, tell=bench.tell)


def claims(data: dict[str, Any]) -> list[Claim]:
    told, raced, written = data["coverage"], data["races"], data["speed"]["written_a_minute"]
    inside, different, found = told["groups"]["all"]["coverage"], raced["called_different"], raced["found"]
    runs, races = f"{told['runs']} runs", f"{raced['comparisons']} races"
    return [
        Claim("95 % interval covers, simulated", "≥ 90 %", f"{percent(inside)} of {runs}", inside >= 0.9),
        *_of_unknown_effects(told["groups"]),
        Claim("equals called different, simulated", "< 5 %", f"{percent(different)} of {races}", different < 0.05),
        Claim("a true 5 % found, simulated", "> 90 %", f"{percent(found)} of {races}", found > 0.9),
        Claim(
            "simulated trials written a minute, on one core",
            f"≥ {LEAST_A_MINUTE}",
            f"{written:.0f}",
            written >= LEAST_A_MINUTE,
        ),
    ]


def _of_unknown_effects(groups: dict[str, Any]) -> list[Claim]:
    own = groups.get(simulated.UNKNOWN)
    if own is None:
        return []
    figure = f"{percent(own['coverage'])} of {own['runs']} runs"
    return [Claim("95 % interval covers beside effects that the replay does not know", "no bar", figure, None)]


def lines(data: dict[str, Any]) -> list[str]:
    return simulated.markdown(data)
