"""Simulated loaders as a part of the whole: what `simulated.py` finds, beside its bars."""

from __future__ import annotations

from typing import Any

import simulated
from launches import Bench
from table import Claim, percent


def measure(bench: Bench) -> dict[str, Any]:
    bench.tell("several minutes, on all cores")
    return simulated.figures(quick=bench.quick, tell=bench.tell)


def claims(data: dict[str, Any]) -> list[Claim]:
    told, raced = data["coverage"], data["races"]
    inside, different, found = told["groups"]["all"]["coverage"], raced["called_different"], raced["found"]
    runs, races = f"{told['runs']} runs", f"{raced['comparisons']} races"
    return [
        Claim("95 % interval covers, simulated", "≥ 90 %", f"{percent(inside)} of {runs}", inside >= 0.9),
        Claim("equals called different, simulated", "< 5 %", f"{percent(different)} of {races}", different < 0.05),
        Claim("a true 5 % found, simulated", "> 90 %", f"{percent(found)} of {races}", found > 0.9),
    ]


def lines(data: dict[str, Any]) -> list[str]:
    return simulated.markdown(data)
