"""What is mounted where, as this process sees it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    # Which part of the file system is seen, and where.
    root: str
    top: str
    filesystem: str
    # Of the mount and of the file system.
    options: frozenset[str]


def mounts(proc: Path) -> list[Mount]:
    """In their order: a later one hides an earlier one at the same place. Empty where nobody tells."""
    try:
        lines = os.fsdecode((proc / "self" / "mountinfo").read_bytes()).splitlines()
    except OSError:
        return []
    return [*_mounts(lines)]


def _mounts(lines: list[str]) -> Iterator[Mount]:
    for line in lines:
        mount, _, kind = line.partition(" - ")
        fields, of_filesystem = mount.split(" "), kind.split(" ")
        if len(fields) < 6 or not kind:
            continue
        yield Mount(
            root=_unescaped(fields[3]),
            top=_unescaped(fields[4]),
            filesystem=of_filesystem[0],
            options=frozenset([*fields[5].split(","), *of_filesystem[-1].split(",")]),
        )


def _unescaped(path: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, character)
    return path
