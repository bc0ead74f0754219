"""What a self-test finds: cells, each with what was expected and what was seen."""

from __future__ import annotations

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


def is_green(cells: tuple[CellResult, ...]) -> bool:
    """Nothing failed, and something was shown; what could not be decided is neither."""
    return any(cell.status == "passed" for cell in cells) and not any(cell.status == "failed" for cell in cells)
