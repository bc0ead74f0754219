"""Figures beside their bars, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    what: str
    bar: str
    figure: str
    # None: nothing to pass, a figure for the record.
    passed: bool | None

    @property
    def verdict(self) -> str:
        return "-" if self.passed is None else "pass" if self.passed else "**fail**"


def claims_table(claims: Sequence[Claim]) -> list[str]:
    return [
        "| claim | bar | measured | |",
        "|---|---|---|---|",
        *(f"| {claim.what} | {claim.bar} | {claim.figure} | {claim.verdict} |" for claim in claims),
    ]


def percent(value: float) -> str:
    return f"{value * 100:.1f} %"


def share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole * 100:.0f} %)"


def percentile(ordered: Sequence[float], at: float) -> float:
    """Of sorted values, between the two nearest."""
    place = at * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
