"""The bounds of foreign text, and the error of a text that leaves them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Configs are written by people, three to eight levels deep. Python itself gives up near 1000 calls, a few for a level.
DEEPEST = 64
# Beyond it an integer is no float any more, and Python refuses to print one of more than 4300 digits.
MOST_BITS = 1023
MOST_DIGITS = 308
# A lone surrogate cannot be written to any file or terminal.
_SURROGATE = re.compile("[\ud800-\udfff]")

IN_REASON = "vtune reads what people and programs write for a training; make the file smaller or flatter"


class BadText(ValueError):
    """The text of a file is not what it should be. `line` and `column` count from 1, where they are known."""

    def __init__(self, message: str, *, hint: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.line = line
        self.column = column


def too_deep(line: int | None = None, column: int | None = None) -> BadText:
    message = f"not usable: nested too deeply, in more than {DEEPEST} levels"
    return BadText(message, hint=IN_REASON, line=line, column=column)


def check_values(data: Any) -> None:
    """Raises BadText where a value could not be printed, written or turned into a float later."""
    waiting = [(data, 0)]
    seen: set[int] = set()
    while waiting:
        value, depth = waiting.pop()
        if depth > DEEPEST:
            raise too_deep()
        if isinstance(value, str):
            check_text(value)
        elif isinstance(value, int):
            check_integer(value)
        elif isinstance(value, Mapping | list | tuple):
            if id(value) in seen:
                continue
            seen.add(id(value))
            parts = [*value.keys(), *value.values()] if isinstance(value, Mapping) else value
            waiting.extend((part, depth + 1) for part in parts)


def check_integer(value: int, line: int | None = None, column: int | None = None) -> None:
    if value.bit_length() > MOST_BITS:
        raise BadText(
            f"an integer of more than {MOST_DIGITS} digits",
            hint="write it shorter, or put it in quotes if it is text",
            line=line,
            column=column,
        )


def check_text(value: str, line: int | None = None, column: int | None = None) -> None:
    found = _SURROGATE.search(value)
    if found is not None:
        raise BadText(
            f"a text with half a character, {found[0]!a}",
            hint="write the whole character as it is: half of one can be written nowhere",
            line=line,
            column=column,
        )
