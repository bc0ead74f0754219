"""Everything that is wrong with what was asked, said at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from vtune.errors import UsageError

_POSITION = re.compile(r"(?P<file>.*):(?P<line>[0-9]+):(?P<column>[0-9]+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    # `file:line:column`, or the file alone; None for the command line, whose message names the option.
    where: str | None = None
    message: str
    hint: str
    # A key of the training's YAML that stands there twice: mostly the last one counts, but a reader may take either.
    twice: bool = False

    @property
    def line(self) -> str:
        return self.message if self.where is None else f"{self.where}: {self.message}"


class ConfigErrors(UsageError):
    def __init__(self, problems: Sequence[Problem]) -> None:
        # One mistake can be found on two ways (a key that is unknown and of the wrong type).
        self.problems = tuple(sorted(dict.fromkeys(problems), key=_place))
        hints = dict.fromkeys(problem.hint for problem in self.problems)
        super().__init__("\n".join(problem.line for problem in self.problems), hint="\n".join(hints))


def _place(problem: Problem) -> tuple[str, int, int]:
    """The command line first, then each file from top to bottom."""
    if problem.where is None:
        return "", 0, 0
    at = _POSITION.fullmatch(problem.where)
    return (problem.where, 0, 0) if at is None else (at["file"], int(at["line"]), int(at["column"]))
