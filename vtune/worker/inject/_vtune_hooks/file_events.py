"""Before a file of the user's is changed: what this process opens, renames and removes, told by Python's audit events.

Python raises them before each such call, whoever makes it: also `io.FileIO`, C code that calls `open`, and a library
that took the function long ago. Functions exchanged for ours would miss those, and would be seen. The price is a call
of `hook` for each event of any kind, some 0.1 us (`id()` is the frequent one); docs/decisions/0002 has the figures.
"""

from __future__ import annotations

import errno
import os
import sys

from _vtune_hooks import protection
from _vtune_hooks.protection import CONTENT, KEPT, METADATA
from _vtune_hooks.real_paths import in_any_open_folder, real_path
from _vtune_hooks.told_files import ToldFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CACHES = "__pycache__"
_PROBE = "vtune.file_events"
_SQLITE_FILES = ("", "-journal", "-wal", "-shm")

# The one that is at work; a fork's child goes on with it.
watching: list[FileEvents] = []


class FileEvents:
    def __init__(self, known: protection.Protection) -> None:
        self._known = known
        self._told = ToldFiles(known.trial)
        self._keeper = None
        if known.by == "inside":
            from _vtune_hooks.keeping import Keeper

            self._keeper = Keeper(known.trial, known.disk_bytes, self._told)
        # Ours, by the very words that we use for them: else we would be asked about what we do here, without end.
        self._own = (os.path.join(known.trial, KEPT), os.path.join(known.trial, "files-"))
        self.handlers: dict[str, Callable[..., None]] = {
            "open": self._open,
            "os.remove": self._by_name,
            "os.rmdir": self._by_name,
            "os.mkdir": self._mkdir,
            "os.rename": self._rename,
            "os.link": self._link,
            "os.symlink": self._symlink,
            "os.truncate": self._truncate,
            "os.chmod": self._metadata,
            "os.chown": self._metadata,
            "os.utime": self._metadata,
            "os.setxattr": self._attribute,
            "os.removexattr": self._attribute,
            "sqlite3.connect": self._sqlite,
            "socket.bind": self._bind,
        }

    def _open(self, path: Any, mode: Any, flags: int) -> None:
        if not flags & _WRITES or isinstance(path, int) or flags & os.O_TMPFILE == os.O_TMPFILE:
            return
        if self._is_own(path):
            return
        # Of os.open, which has no mode, the event leaves out the folder that a relative path counts from.
        if mode is None and not os.path.isabs(os.fsdecode(path)):
            for real in in_any_open_folder(path):
                self._change(real)
        else:
            self._change(real_path(path, follow=True))

    def _by_name(self, path: Any, dir_fd: int = -1) -> None:
        if not self._is_own(path):
            self._change(real_path(path, dir_fd, follow=False))

    def _mkdir(self, path: Any, mode: int, dir_fd: int = -1) -> None:
        self._by_name(path, dir_fd)

    def _rename(self, source: Any, target: Any, source_fd: int = -1, target_fd: int = -1) -> None:
        if self._is_own(source):
            return
        self._change(real_path(source, source_fd, follow=False), whole_tree=True)
        self._change(real_path(target, target_fd, follow=False))

    def _link(self, source: Any, target: Any, source_fd: int = -1, target_fd: int = -1) -> None:
        if self._is_own(target):
            return
        # From now on the file can be changed by its new name.
        for follow in (True, False):
            self._change(real_path(source, source_fd, follow=follow), elsewhere=False)
        self._change(real_path(target, target_fd, follow=False))

    def _symlink(self, source: Any, target: Any, dir_fd: int = -1) -> None:
        self._by_name(target, dir_fd)

    def _truncate(self, path: Any, length: int) -> None:
        # A descriptor was opened for writing before.
        if not isinstance(path, int):
            self._change(real_path(path, follow=True))

    def _metadata(self, path: Any, *rest: Any) -> None:
        """Of os.chmod, os.chown and os.utime; the folder's descriptor comes last."""
        self._change_metadata(path, rest[-1])

    def _attribute(self, path: Any, *rest: Any) -> None:
        self._change_metadata(path, -1)

    def _change_metadata(self, path: Any, dir_fd: int) -> None:
        for follow in (True, False):
            self._change(real_path(path, dir_fd, follow=follow), level=METADATA, elsewhere=False)

    def _sqlite(self, database: Any) -> None:
        name = os.fsdecode(database)
        if name.startswith("file:"):
            name, _, query = name[len("file:") :].partition("?")
            if "mode=memory" in query or "mode=ro" in query or "immutable=1" in query:
                return
            name = "/" + name.lstrip("/") if name.startswith("//") else name
        if name and name != ":memory:":
            for ending in _SQLITE_FILES:
                self._change(real_path(name + ending, follow=True))

    def _bind(self, socket: Any, address: Any) -> None:
        if isinstance(address, (str, bytes)) and address and address[:1] not in ("\0", b"\0"):
            self._change(real_path(address, follow=False))

    def before_writing(self, path: Any) -> None:
        """For code that opens files without Python."""
        if isinstance(path, (str, bytes, os.PathLike)):
            self._change(real_path(path, follow=True))

    def _is_own(self, path: Any) -> bool:
        return isinstance(path, str) and path.startswith(self._own)

    def _change(
        self, real: str | None, *, level: int = CONTENT, whole_tree: bool = False, elsewhere: bool = True
    ) -> None:
        known = self._known
        if real is None or known.is_open(real):
            return
        top = known.folder_of(real)
        if top is None or known.by == "none":
            if elsewhere and _CACHES not in real.split("/"):
                self._told.before_writing(real)
        elif self._keeper is not None:
            if whole_tree:
                self._keeper.keep_tree(real, top)
            else:
                self._keeper.keep(real, top, level)


def begin(trial: str) -> None:
    """Where the files are protected from inside alone, a Python that cannot do so does not run."""
    try:
        _begin(trial)
    except Exception as error:
        if not _depends_on_us(trial):
            raise
        ToldFiles(trial).tell("not_kept", path="", errno=errno.EIO, reason=repr(error))
        os._exit(1)


def _begin(trial: str) -> None:
    known = protection.read(trial)
    if known is None or watching:
        return
    if known.as_user:
        from _vtune_hooks import folder_renames

        folder_renames.begin()
    events = FileEvents(known)
    find = events.handlers.get
    answered: list[bool] = []
    events.handlers[_PROBE] = answered.append

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        handle = find(event)
        if handle is not None:
            try:
                handle(*arguments)
            except (TypeError, ValueError):  # not a name of a file: the call fails by itself
                pass

    sys.addaudithook(hook)
    # An older hook may refuse a further one, and nobody is told.
    sys.audit(_PROBE, True)
    del events.handlers[_PROBE]
    if not answered:
        raise RuntimeError("this Python takes no audit hook")
    watching.append(events)


def _depends_on_us(trial: str) -> bool:
    with open(os.path.join(trial, protection.NAME), encoding="utf-8") as file:
        return '"inside"' in file.read()


def before_writing(path: Any) -> None:
    for events in watching:
        events.before_writing(path)
