"""What a self-test finds: cells, each with what was expected and what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

CellStatus = Literal["passed", "failed", "inconclusive", "not_judged", "not_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    status: CellStatus
    # What was expected and what was seen, with the values.
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    cell: str
    title: str
    gpu: bool
    status: CellStatus
    sentence: str
    seconds: float | None = None
    # Cores that others kept busy meanwhile.
    others_cores: float | None = None
    # It failed while others disturbed it, and was done once more.
    repeated: bool = False


Colour = Literal["green", "red", "incomplete"]


def colour_of(cells: Sequence[CellResult]) -> Colour:
    """Red: a measured value was wrong. Incomplete: none was, but what should be shown could not be carried out."""
    seen = {cell.status for cell in cells}
    if "failed" in seen:
        return "red"
    return "green" if "passed" in seen and "not_judged" not in seen else "incomplete"


def why_not_validated(cells: Sequence[CellResult]) -> str | None:
    """None when everything that can be shown here was shown."""
    colour = colour_of(cells)
    undecided = [cell.cell for cell in cells if cell.status == "inconclusive"]
    open_ = [cell.cell for cell in cells if cell.status == "not_judged"]
    if colour == "red":
        return "a measurement is wrong here"
    if open_:
        return f"{_cells(open_)} could not be judged ({', '.join(open_)})"
    if colour == "incomplete":
        return "nothing was shown"
    if undecided:
        return f"{_cells(undecided)} undecided ({', '.join(undecided)}): run it again on a quiet machine"
    return None


def _cells(names: Sequence[str]) -> str:
    return f"{len(names)} cell{'s' if len(names) > 1 else ''}"
