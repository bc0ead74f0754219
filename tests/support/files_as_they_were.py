"""A folder as it is, in full: two of these are equal when nothing in it was changed."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FileState:
    kind: str
    mode: int
    owner: tuple[int, int]
    mtime_ns: int
    # A hash of a file's bytes, a link's target; of a folder, nothing.
    content: str
    xattrs: tuple[tuple[str, bytes], ...]


# It was made unreadable, which is a change.
CLOSED = FileState(kind="closed", mode=0, owner=(0, 0), mtime_ns=0, content="", xattrs=())

Manifest = dict[str, FileState]


def manifest(*folders: Path) -> Manifest:
    """The folders themselves and all below them, by path; links are told, not followed."""
    found: Manifest = {}
    waiting = [str(folder) for folder in folders]
    while waiting:
        path = waiting.pop()
        try:
            found[path] = _state(path)
            if found[path].kind == "folder":
                waiting += [entry.path for entry in os.scandir(path)]
        except PermissionError:
            found[path] = CLOSED
        except FileNotFoundError:  # while the training still runs
            continue
    return found


def differences(before: Manifest, after: Manifest) -> list[str]:
    """Empty when all is as it was; a line for each path that is not."""
    return [
        f"{path}: {before.get(path)} -> {after.get(path)}"
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]


def _state(path: str) -> FileState:
    status = os.lstat(path)
    kind, content = "other", ""
    if stat.S_ISDIR(status.st_mode):
        kind = "folder"
    elif stat.S_ISLNK(status.st_mode):
        kind, content = "link", os.readlink(path)
    elif stat.S_ISREG(status.st_mode):
        kind, content = "file", hashlib.sha256(Path(path).read_bytes()).hexdigest()
    names = sorted(os.listxattr(path, follow_symlinks=False))
    xattrs = tuple((name, os.getxattr(path, name, follow_symlinks=False)) for name in names)
    return FileState(
        kind=kind,
        mode=stat.S_IMODE(status.st_mode),
        owner=(status.st_uid, status.st_gid),
        mtime_ns=status.st_mtime_ns,
        content=content,
        xattrs=xattrs,
    )
