"""What the hooks in a training kept of the user's files: the notes, and what they say was changed.

Loaded by the supervisor with restore.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat

from vtune.journal.file_names import PROTECTION, WRITTEN_LIST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

NOTHING_THERE = "nothing:"
CHANGES = ("changed", "new", "removed")
_KINDS = ("nothing", "file", "link", "folder", "special", "name", "inode")
_NOT_LISTED = "__pycache__"


class Entry:
    __slots__ = ("folder", "is_metadata", "kind", "note", "parts", "path")

    def __init__(self, folder: str, kind: str, note: Mapping[str, Any]) -> None:
        self.folder = folder
        self.kind = kind
        self.note = note
        self.path: str = note["path"]
        self.parts = self.path.split("/")
        # Its rights and times alone: the file itself was not touched, or has an entry of its own.
        self.is_metadata = folder.endswith(".meta")

    @property
    def data(self) -> str:
        return os.path.join(self.folder, "data")

    @property
    def inode(self) -> str:
        return os.path.join(self.folder, "itself")

    def forget(self) -> None:
        """The note goes last: without it the rest means nothing."""
        if os.path.islink(self.folder):
            os.unlink(self.folder)
            return
        for path in (self.inode, self.data, os.path.join(self.folder, self.kind)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        os.rmdir(self.folder)


def read_entries(folder: str, kept: str, unreadable: dict[str, str]) -> list[Entry]:
    """Without drafts, which stand for changes that were never made. `unreadable` gets the others' reasons."""
    note = os.path.join(folder, PROTECTION)
    try:
        with open(note, encoding="utf-8") as file:
            tops = tuple(str(top) for top in json.load(file)["folders"])
    except (OSError, ValueError, KeyError, TypeError) as error:  # a training may write into its trial's folder
        unreadable[note] = str(error)
        return []
    found = []
    for name in sorted(os.listdir(kept)):
        place = os.path.join(kept, name)
        if os.path.islink(place):
            path = os.readlink(place).removeprefix(NOTHING_THERE)
            if _is_below(path, tops):
                found.append(Entry(place, "nothing", {"path": path}))
            else:
                unreadable[place] = f"{path} is in no protected folder"
            continue
        for kind in () if name.startswith(".") else _KINDS:
            note = os.path.join(place, kind)
            try:
                with open(note, encoding="utf-8") as file:
                    entry = Entry(place, kind, json.load(file))
                if not _is_below(entry.path, tops):
                    raise ValueError(f"{entry.path} is in no protected folder")
                found.append(entry)
            except FileNotFoundError:
                continue
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                unreadable[note] = str(error)
    return found


def _is_below(path: str, tops: tuple[str, ...]) -> bool:
    parts = path.split("/")
    if not path.startswith("/") or ".." in parts or "." in parts:
        return False
    return any(path == top or path.startswith(top.rstrip("/") + "/") for top in tops)


def list_changes(folder: str, entries: Sequence[Entry]) -> None:
    """Before anything is put back, in `written.json`; a list that an interrupted restoring left is added to."""
    path = os.path.join(folder, WRITTEN_LIST)
    found: dict[str, dict[str, None]] = {kind: dict.fromkeys(_listed(path, kind)) for kind in CHANGES}
    for entry in entries:
        change = None
        with contextlib.suppress(OSError):
            change = _change_of(entry)
        if change is not None:
            for name in _names(entry.path) if change == "new" else (entry.path,):
                if _NOT_LISTED not in name.split("/"):
                    found[change][name] = None
    write_json(path, {kind: sorted(names) for kind, names in found.items()})


def _listed(path: str, kind: str) -> list[str]:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError), open(path, encoding="utf-8") as file:
        return [str(name) for name in json.load(file)[kind]]
    return []


def _change_of(entry: Entry) -> str | None:
    there = status_of(entry.path)
    if entry.kind == "nothing":
        return None if there is None else "new"
    if there is None:
        return None if entry.kind == "inode" else "removed"
    if entry.kind in ("folder", "inode", "special") or entry.is_metadata:
        return None
    if entry.kind in ("file", "name"):
        if entry.kind == "file" and not os.path.exists(entry.data):
            return None  # put back already
        same = stat.S_ISREG(there.st_mode) and (there.st_size, there.st_mtime_ns, stat.S_IMODE(there.st_mode)) == (
            entry.note["size"],
            entry.note["mtime_ns"],
            entry.note["mode"],
        )
    else:
        same = stat.S_ISLNK(there.st_mode) and os.readlink(entry.path) == entry.note["target"]
    return None if same else "changed"


def _names(path: str) -> Iterator[str]:
    """Of a folder, itself and all in it."""
    waiting = [path]
    while waiting:
        path = waiting.pop()
        if not open_up(path):
            yield path
            continue
        yield path + "/"
        with contextlib.suppress(OSError):
            waiting += (os.path.join(path, name) for name in os.listdir(path))


def write_json(path: str, item: object) -> None:
    # The disk may be full, and putting back needs no more of it.
    with contextlib.suppress(OSError):
        with open(path + ".tmp", "w", encoding="utf-8") as file:
            json.dump(item, file)
        os.replace(path + ".tmp", path)


def status_of(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def open_up(path: str) -> bool:
    """Whether it is a folder; the training may have closed it, also to itself."""
    there = None
    with contextlib.suppress(OSError):
        there = os.lstat(path)
    if there is None or not stat.S_ISDIR(there.st_mode):
        return False
    if there.st_mode & 0o700 != 0o700:
        with contextlib.suppress(OSError):
            os.chmod(path, stat.S_IMODE(there.st_mode) | 0o700)
    return True
