"""The terminal, if it is one: without escape codes where they are not wanted, without wrapping where nobody looks."""

from __future__ import annotations

import os
import sys

from rich.console import Console, RenderableType

# Off a terminal lines are found by grep, not by eye: wide enough that none is cut in two.
PIPED_COLUMNS = 1000


def console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """NO_COLOR keeps every escape code away, not only the colours: rich would still write bold and cursor movements."""
    plain = bool(os.environ.get("NO_COLOR"))
    return Console(
        stderr=stderr,
        quiet=quiet,
        highlight=False,
        color_system=None if plain else "auto",
        force_terminal=False if plain else None,
    )


def print_list(renderable: RenderableType) -> None:
    """Rows of text on stdout: as wide as they are, and without trailing blanks, where it is no terminal."""
    out = console()
    if out.is_terminal or os.environ.get("COLUMNS"):
        out.print(renderable)
        return
    out.width = PIPED_COLUMNS
    with out.capture() as captured:
        out.print(renderable)
    sys.stdout.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))
