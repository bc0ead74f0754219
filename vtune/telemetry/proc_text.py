"""Short files of /proc and /sys, read once."""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc")


def text_of(path: Path) -> str:
    """Empty where it cannot be read: not there, forbidden, or not known to this kernel."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def integer_of(path: Path) -> int | None:
    try:
        return int(text_of(path))
    except ValueError:  # not there, or a word such as "max"
        return None
