"""The old state of the user's files, kept before their first change: a copy, or the note that nothing stood there.

`<trial>/kept/` holds an entry for each path, named by a hash of it. Where nothing stood, it is a link to `nothing:` and
the path. Else it is a folder: `<hash>/<kind>` is the note, `<hash>/data` the copy of a file. `<hash>.meta/` stands for
a file whose rights or times alone were changed so far. A file with several names is kept in `<device>-<inode>.inode/`,
and each of its names has a note of the kind `name`.

A folder is made whole under another name and then renamed. Renaming onto a folder that is not empty fails: of several
processes the first one wins. Nobody changes a path before its entry is there, so the first one has read the old state.
"""

from __future__ import annotations

import _thread
import errno
import itertools
import os
import stat

from _vtune_hooks import copies, protection
from _vtune_hooks.json_text import text_of
from _vtune_hooks.protection import CONTENT, METADATA
from _vtune_hooks.told_files import ToldFiles

try:
    # hashlib takes ten times as long to import.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROOM = ".room"
NOTHING, FILE, LINK, FOLDER, SPECIAL, NAME, INODE = "nothing", "file", "link", "folder", "special", "name", "inode"
NOTHING_THERE = "nothing:"
# Paths remembered in memory; beyond, the trial's folder is asked again.
MOST_REMEMBERED = 100_000
# Somebody else is changing the file all the time.
_ATTEMPTS = 10
_RECORD = 8
# The name is another one's folder, or link.
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)

_open, _close, _lstat, _mkdir, _rename, _exists = os.open, os.close, os.lstat, os.mkdir, os.rename, os.path.lexists
_scandir, _unlink, _rmdir, _write, _pread, _fstat = os.scandir, os.unlink, os.rmdir, os.write, os.pread, os.fstat
_symlink = os.symlink
_number = itertools.count()


class Keeper:
    def __init__(self, trial: str, disk_bytes: int | None, told: ToldFiles) -> None:
        self.folder = os.path.join(trial, protection.KEPT)
        self._disk_bytes = disk_bytes
        self._told = told
        # The trial itself may lie in a folder that gets another name.
        self._left_out = {trial}
        # Real path -> METADATA or CONTENT. A change of content is one of its folder, too, which the first is not.
        self._kept: dict[str, int] = {}
        # Folders that the trial made, and those that it found.
        self._made: set[str] = set()
        self._found: set[str] = set()
        # Of the list of sizes: how far it was read, and their sum.
        self._room = (0, 0)

    def keep(self, path: str, top: str, level: int = CONTENT) -> None:
        """`path` is a real one in the protected folder `top`. Raises OSError where its state cannot be kept."""
        if self._kept.get(path, 0) >= level:
            return
        try:
            if path != top:
                parent = os.path.dirname(path)
                if self._is_made_by_the_trial(parent, top):
                    return
                if level == CONTENT:
                    self._enter(parent, METADATA)  # its times
            self._enter(path, level)
        except Exception as error:
            raise self._refused(path, error) from None

    def keep_tree(self, path: str, top: str) -> None:
        """Everything below a folder that is about to get another name."""
        self.keep(path, top)
        try:
            if path != top and self._is_made_by_the_trial(path, top):
                return
            if _is_nothing(self._entry(path)) or not stat.S_ISDIR(_lstat(path).st_mode):
                return
            with _scandir(path) as entries:
                below = [entry.path for entry in entries]
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._refused(path, error) from None
        for entry in below:
            if entry not in self._left_out:
                self.keep_tree(entry, top)

    def _is_made_by_the_trial(self, folder: str, top: str) -> bool:
        """Then whatever is in it is new. A folder that is there was noted before it was made, if the trial made it."""
        seen = []
        made = False
        while True:
            if folder in self._found:
                break
            if folder in self._made or _is_nothing(self._entry(folder)):
                made = True
                break
            seen.append(folder)
            if folder == top or folder == "/":
                break
            folder = os.path.dirname(folder)
        if made:
            self._made.update((folder, *seen))
        else:
            self._found.update(seen)
        return made

    def _enter(self, path: str, level: int) -> None:
        if self._kept.get(path, 0) >= level:
            return
        entry = self._entry(path)
        for attempt in range(_ATTEMPTS):
            try:
                if not _exists(entry):
                    self._enter_now(path, entry, level)
                self._remember(path, level)
                return
            except FileNotFoundError:
                # Somebody else's: removed between two looks. Or the folder for it all is still missing.
                if attempt == _ATTEMPTS - 1:
                    raise
                try:
                    _mkdir(self.folder, 0o700)
                except FileExistsError:
                    pass

    def _enter_now(self, path: str, entry: str, level: int) -> None:
        try:
            status = _lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            self._note_nothing(path, entry)
            return
        kind = _kind(status.st_mode)
        if kind == FILE and level == METADATA and status.st_nlink == 1:
            if not _exists(entry + ".meta"):
                self._complete(entry + ".meta", FILE, _note(path, status, path))
        elif kind == FILE:
            self._copy(path, entry)
        else:
            note = _note(path, status, path)
            if kind == LINK:
                note["target"] = os.readlink(path)
            elif kind == SPECIAL:
                note["type"] = stat.S_IFMT(status.st_mode)
            self._complete(entry, kind, note)

    def _note_nothing(self, path: str, entry: str) -> None:
        try:
            # In one call: a training may make a thousand files.
            _symlink(NOTHING_THERE + path, entry)
        except FileExistsError:
            pass
        except FileNotFoundError:
            raise
        except OSError:  # too long a path, or a file system without links
            self._complete(entry, NOTHING, {"path": path})

    def _copy(self, path: str, entry: str) -> None:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            source = _open(path, flags | os.O_NOATIME)
        except PermissionError:  # only its owner may read without a trace
            source = _open(path, flags)
        try:
            status = _fstat(source)
            note = _note(path, status, source)
            inode = self._inode(path, source, note) if status.st_nlink > 1 else None
            if inode is None:
                self._complete(entry, FILE, note, source)
            else:
                self._complete(entry, NAME, {**note, "inode": inode})
        finally:
            _close(source)

    def _inode(self, path: str, source: int, note: dict[str, Any]) -> str | None:
        """A file with several names is kept once, by the first of them: a change by one name changes all.

        With it goes one more name of it, by which it can be found again. None where the file system refuses that.
        """
        name = f"{note['dev']:x}-{note['ino']:x}.inode"
        entry = os.path.join(self.folder, name)
        try:
            if not _exists(entry):
                self._complete(entry, INODE, note, source, link=path)
        except OSError as error:
            if error.errno in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
                return None
            raise
        return name

    def _complete(
        self, entry: str, kind: str, note: dict[str, Any], source: int | None = None, link: str | None = None
    ) -> None:
        """Nothing where another one was first."""
        draft = os.path.join(self.folder, f".{os.getpid()}-{_thread.get_ident()}-{next(_number)}")
        _mkdir(draft, 0o700)
        reserved = 0
        try:
            if link is not None:
                os.link(link, os.path.join(draft, "itself"), follow_symlinks=False)
            if source is not None:
                reserved = self._reserve(_fstat(source).st_blocks * 512)
                target = _open(os.path.join(draft, "data"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    copies.copy_content(source, target, note["size"])
                finally:
                    _close(target)
            target = _open(os.path.join(draft, kind), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                text = text_of(note).encode()
                if _write(target, text) != len(text):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                _close(target)
            _rename(draft, entry)
        except BaseException as error:
            _remove(draft)
            self._reserve(-reserved)
            if not isinstance(error, OSError) or error.errno not in _TAKEN:
                raise

    def _reserve(self, size: int) -> int:
        """By a list of sizes that only grows: a lock would hang where a signal's handler interrupts its holder."""
        if self._disk_bytes is None or size == 0:
            return 0
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = _open(os.path.join(self.folder, ROOM), flags, 0o600)
        try:
            _write(descriptor, size.to_bytes(_RECORD, "little", signed=True))
            read, total = self._room
            while piece := _pread(descriptor, 2**16, read):
                whole = len(piece) - len(piece) % _RECORD
                for at in range(0, whole, _RECORD):
                    total += int.from_bytes(piece[at : at + _RECORD], "little", signed=True)
                read += whole
                if not whole:
                    break
            self._room = read, total
            if size > 0 and total > self._disk_bytes:
                _write(descriptor, (-size).to_bytes(_RECORD, "little", signed=True))
                raise OSError(errno.ENOSPC, f"more than the {self._disk_bytes} bytes that a trial may take")
        finally:
            _close(descriptor)
        return size

    def _refused(self, path: str, error: Exception) -> OSError:
        number = error.errno if isinstance(error, OSError) and error.errno else errno.EIO
        reason = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
        try:
            self._told.tell("not_kept", path=path, errno=number, reason=reason)
        except OSError:  # a full disk: the training's own error says it, too
            pass
        return OSError(number, f"vtune cannot keep the old state of this file for after the trial ({reason})", path)

    def _entry(self, path: str) -> str:
        return os.path.join(self.folder, blake2b(os.fsencode(path), digest_size=16).hexdigest())

    def _remember(self, path: str, level: int) -> None:
        if len(self._kept) > MOST_REMEMBERED:
            self._kept.clear()
        self._kept[path] = level


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return FILE
    if stat.S_ISDIR(mode):
        return FOLDER
    return LINK if stat.S_ISLNK(mode) else SPECIAL


def _is_nothing(entry: str) -> bool:
    return os.path.islink(entry) or _exists(os.path.join(entry, NOTHING))


def _note(path: str, status: os.stat_result, readable: str | int) -> dict[str, Any]:
    return {
        "path": path,
        "mode": stat.S_IMODE(status.st_mode),
        "uid": status.st_uid,
        "gid": status.st_gid,
        "atime_ns": status.st_atime_ns,
        "mtime_ns": status.st_mtime_ns,
        "ctime_ns": status.st_ctime_ns,
        "dev": status.st_dev,
        "ino": status.st_ino,
        "links": status.st_nlink,
        "size": status.st_size,
        "xattrs": _attributes(readable),
    }


def _attributes(readable: str | int) -> dict[str, str]:
    follow = {} if isinstance(readable, int) else {"follow_symlinks": False}
    try:
        names = os.listxattr(readable, **follow)
        return {name: os.getxattr(readable, name, **follow).hex() for name in names}
    except OSError:
        return {}


def _remove(draft: str) -> None:
    try:
        for name in os.listdir(draft):
            _unlink(os.path.join(draft, name))
        _rmdir(draft)
    except OSError:
        pass
