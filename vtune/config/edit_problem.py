"""What every kind of edit shares."""

from __future__ import annotations

import re

Path = tuple[str, ...]
# As YAML, JSON and TOML have it.
Plain = bool | int | float | str | list[int] | None
# From here to there, this instead.
Splice = tuple[int, int, str]
# OmegaConf's and Hydra's, Jinja's, and Python's own.
INTERPOLATION = re.compile(r"\$\{|\{\{|%\(")


class CannotEdit(Exception):
    """Why a text cannot be changed in place, in one sentence."""


def dotted(path: Path) -> str:
    return ".".join(path)


def line_end_of(text: str) -> str:
    """The file's own; of a file with both, that of its first line."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"
