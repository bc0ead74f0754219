"""Did auto find what the grid found, for less? The table of the real trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from scipy.stats import t as student

BEGIN_OF_REAL, END_OF_REAL = "<!-- figures: written by search/real.py -->", "<!-- end of the real figures -->"
# What counts as equal: vtune's own choice leaves no more than this to what costs less memory.
EQUAL = 0.02
OF_GRID, OF_TPE = 1 / 3, 1 / 2
HEAD = (
    "| training | grid: settings, minutes, winner | TPE: minutes, choice | auto: trials, minutes, choice"
    " | auto over grid (95 %) | time of the grid's | of TPE's | passes |"
)


def table_of(told: Mapping[str, Any]) -> str:
    rows = {name: row for name, row in told["rows"].items() if row.get("date")}
    if not rows:
        return "Nothing was measured yet."
    dates, versions = ({row[name] for row in rows.values()} for name in ("date", "version"))
    words = f"{', '.join(sorted(dates))} (version {', '.join(sorted(versions))}) · {told['machine']}"
    words += " · `python benchmarks/search/real.py`"
    if any(row["quick"] for row in rows.values()):
        words += " · **a quick run: no figures to rely on**"
    lines = [words, "", HEAD, "|" + "---|" * (HEAD.count("|") - 1)]
    return "\n".join([*lines, *(_row(name, row) for name, row in rows.items())])


def _row(name: str, row: Mapping[str, Any]) -> str:
    grid, tpe, auto = (row["searches"].get(one, {}) for one in ("grid", "tpe", "auto"))
    if any("key" not in one for one in (grid, tpe, auto)):
        why = "; ".join(f"{one}: {row['searches'][one]['failed']}" for one in row["searches"] if _failed(row, one))
        return f"| {name} | {why.replace('|', '/')} | | | | | | **no** |"
    found = ratio([(one[auto["key"]], one[grid["key"]]) for one in row["rounds"]])
    of_grid, of_tpe = auto["seconds"] / grid["seconds"], auto["seconds"] / tpe["seconds"]
    passes = ties_or_beats(found) and of_grid <= OF_GRID and of_tpe <= OF_TPE
    value, low, high = found
    cells = [
        f"{grid['trials']}, {_minutes(grid)}, {_choice(grid, row)}",
        f"{_minutes(tpe)}, {_choice(tpe, row)}",
        f"{auto['trials']}, {_minutes(auto)}, {_choice(auto, row)}",
        "the same settings" if auto["key"] == grid["key"] else f"{value:.3f} ({low:.3f} to {high:.3f})",
        f"{of_grid:.2f}",
        f"{of_tpe:.2f}",
        "yes" if passes else "**no**",
    ]
    return f"| {name} | {' | '.join(cells)} |"


def ratio(pairs: Sequence[tuple[float | None, float | None]]) -> tuple[float, float, float]:
    """Of rounds: the mean and its interval of 95 %. A launch that did not come to its end is worth nothing."""
    if any(not one for one, _ in pairs):
        return 0.0, 0.0, 0.0
    logs = [math.log(one / other) for one, other in pairs if one and other]
    if not logs:
        return math.inf, 0.0, math.inf
    middle = fmean(logs)
    if len(logs) < 2:
        return math.exp(middle), 0.0, math.inf
    half = float(student.ppf(0.975, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


def ties_or_beats(found: tuple[float, float, float]) -> bool:
    """As fast as makes no difference; a wide interval alone is no tie."""
    value, _, high = found
    return value >= 1 - EQUAL and high >= 1


def _choice(one: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """The user's own settings begin the first round."""
    own = next(iter(row["rounds"][0]))
    return f"{one['key']} (the user's own)" if one["key"] == own else str(one["key"])


def _failed(row: Mapping[str, Any], name: str) -> bool:
    return "failed" in row["searches"][name]


def _minutes(one: Mapping[str, Any]) -> str:
    return f"{one['seconds'] / 60:.1f} min"
