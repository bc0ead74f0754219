"""Which folders of the user's a trial must leave as they are: its protection.json, read at the start of each Python."""

from __future__ import annotations

import os

from _vtune_hooks import json_text

NAME, KEPT = "protection.json", "kept"
# How much of a file is about to change: its rights and times alone, or all.
METADATA, CONTENT = 1, 2
# A trial's own temporary folder, which its supervisor removes; any other TMPDIR is the user's.
_TMPDIR_PREFIX = "vt-"
_NO_FILES = ("/dev", "/proc", "/sys")


class Protection:
    """`folders` are the real paths of the protected folders."""

    __slots__ = ("_open", "_open_below", "_tops", "as_user", "by", "disk_bytes", "folders", "trial")

    def __init__(
        self,
        trial: str,
        *,
        by: str,
        folders: list[str],
        open_: list[str],
        disk_bytes: int | None,
        as_user: bool = False,
    ) -> None:
        self.trial = os.path.realpath(trial)
        self.by = by
        # The overlay is one that a user made, which renames no folder that existed before.
        self.as_user = by == "overlay" and as_user
        # An outer one first: its times change with what is made in it.
        self.folders = sorted(folders, key=len)
        self.disk_bytes = disk_bytes
        self._tops = [(folder, folder.rstrip("/") + "/") for folder in self.folders]
        tmpdir = os.environ.get("TMPDIR", "")
        own = [self.trial, tmpdir] if os.path.basename(tmpdir).startswith(_TMPDIR_PREFIX) else [self.trial]
        self._open = (*_NO_FILES, *(os.path.realpath(path) for path in (*own, *open_)))
        self._open_below = tuple(path.rstrip("/") + "/" for path in self._open)

    def is_open(self, path: str) -> bool:
        """Whether writes there are real."""
        return path.startswith(self._open_below) or path in self._open

    def folder_of(self, path: str) -> str | None:
        """The protected folder that this path is in, or is."""
        for folder, below in self._tops:
            if path.startswith(below) or path == folder:
                return folder
        return None


def read(trial: str) -> Protection | None:
    """None for a full run, and for trials without protection."""
    try:
        with open(os.path.join(trial, NAME), encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return None
    known = json_text.parsed(text)
    return Protection(
        trial,
        by=known["by"],
        folders=list(known.get("folders") or ()),
        open_=list(known.get("open") or ()),
        disk_bytes=known.get("disk_bytes"),
        as_user=bool(known.get("as_user")),
    )
