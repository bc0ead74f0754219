"""Puts back the user's files that a trial changed, from the copies that the hooks in the training made before.

Loaded by the supervisor once its tree is gone, and by a sweep. Notes and copies are made by the hooks (keeping.py);
decision 0002 tells their form. What stood nowhere before the trial is moved to `written/<its path>`. Each note is
forgotten only when its file is whole, so whoever is killed in here is followed by another who does the rest.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from vtune.execution.kept_files import Entry, is_folder, list_changes, open_up, read_entries, status_of, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

KEPT, WRITTEN, NOT_RESTORED = "kept", "written", "not-restored.json"
CHANGED_SINCE = "changed after the trial ended"
_PIECE = 2**20
# Clocks of file systems are coarse, and a trial's last write may come after the last word of it.
_SLACK_NS = 2 * 10**9


def restore(folder: str, made_by_others: tuple[int, int] | None = None) -> None:
    """The caller has ended every process of the trial, and knows that the trial is its own.

    `made_by_others`: between these times (ns) the trial did not live, or nobody knows. A file that was changed then is
    left as it is.
    """
    kept = os.path.join(folder, KEPT)
    if os.path.islink(kept) or not os.path.isdir(kept):
        return
    failed: dict[str, str] = {}
    entries = read_entries(folder, kept, failed)
    for entry in sorted(entries, key=lambda entry: entry.parts):
        open_up(entry.path)
    list_changes(folder, entries)
    if made_by_others is not None:
        # Before anything is put back, which changes the times of files.
        failed.update(_changed_since(entries, made_by_others, kept))

    # An outer folder comes first, since the others need it; its times come last, since each file put back changes them.
    for entry in sorted(entries, key=lambda entry: (entry.kind != "inode", entry.parts)):
        if entry.path not in failed:
            _attempt(entry, _put_back, folder, failed)
    for entry in sorted(entries, key=lambda entry: entry.parts, reverse=True):
        if entry.path not in failed and (entry.kind == "folder" or entry.is_metadata):
            _attempt(entry, _finish, folder, failed)
    # Its other names are made of its own extra one.
    needed = {entry.note.get("inode") for entry in entries if entry.kind == "name" and entry.path in failed}
    for entry in entries:
        if entry.kind == "inode" and entry.path not in failed and os.path.basename(entry.folder) not in needed:
            _attempt(entry, _finish, folder, failed)
    _tell_failures(folder, failed)
    if not failed:
        _remove(kept)


def _attempt(entry: Entry, do: Callable[[Entry, str], None], folder: str, failed: dict[str, str]) -> None:
    """One file that cannot be put back keeps none of the others from it."""
    try:
        do(entry, folder)
    except OSError as error:
        failed[entry.path] = f"{error.strerror or error}"
    except (KeyError, TypeError, ValueError) as error:
        failed[entry.path] = f"its note lacks something: {error!r}"


def _changed_since(entries: Sequence[Entry], between: tuple[int, int], kept: str) -> dict[str, str]:
    first, last = between[0] + _SLACK_NS, between[1]
    found = {}
    for entry in entries:
        if entry.kind == "folder":
            continue  # nothing in it is lost with its rights and times
        path = entry.inode if entry.kind == "inode" else entry.path
        with contextlib.suppress(OSError):
            if not _is_whole(entry, path) and any(first < changed < last for changed in _changes_of(path)):
                old = "nothing stood there before" if entry.kind == "nothing" else f"its old state is in {kept}"
                found[entry.path] = f"{CHANGED_SINCE}; {old}"
    return found


def _is_whole(entry: Entry, path: str) -> bool:
    """Put back already, by one who was killed before it could forget the note."""
    there = os.lstat(path)
    return entry.kind in ("file", "inode") and (there.st_size, there.st_mtime_ns, stat.S_IMODE(there.st_mode)) == (
        entry.note["size"],
        entry.note["mtime_ns"],
        entry.note["mode"],
    )


def _changes_of(path: str) -> Iterator[int]:
    """The last change of it and of all in it, in ns. Of a folder its content's alone: its rights are opened up here."""
    waiting = [path]
    while waiting:
        path = waiting.pop()
        there = status_of(path)
        if there is None:
            continue
        if not stat.S_ISDIR(there.st_mode):
            yield max(there.st_mtime_ns, there.st_ctime_ns)
            continue
        yield there.st_mtime_ns
        if open_up(path):
            waiting += (os.path.join(path, name) for name in os.listdir(path))


def _tell_failures(folder: str, failed: Mapping[str, str]) -> None:
    path = os.path.join(folder, NOT_RESTORED)
    if failed:
        write_json(path, failed)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


# --- one entry ---


def _put_back(entry: Entry, folder: str) -> None:
    if entry.is_metadata:
        return
    there = status_of(entry.path)
    if entry.kind == "nothing":
        if there is not None:
            _move_away(entry.path, folder)
        entry.forget()
    elif entry.kind == "folder":
        _put_folder_back(entry, there, folder)
    elif entry.kind == "file":
        _put_file_back(entry, there, folder)
        entry.forget()
    elif entry.kind == "inode":
        _raise(_write_in_place(entry, entry.inode))
    elif entry.kind == "name":
        _put_name_back(entry, there, folder)
        entry.forget()
    elif entry.kind == "link":
        _put_link_back(entry, there, folder)
        entry.forget()
    else:
        _put_special_back(entry, there, folder)
        entry.forget()


def _put_folder_back(entry: Entry, there: os.stat_result | None, folder: str) -> None:
    if there is not None and not stat.S_ISDIR(there.st_mode):
        _move_away(entry.path, folder)
        there = None
    if there is None:
        os.makedirs(entry.path, 0o700)


def _put_file_back(entry: Entry, there: os.stat_result | None, folder: str) -> None:
    note, path = entry.note, entry.path
    if there is not None and _identity(there) == [note[name] for name in _IDENTITY]:
        return  # opened and left alone
    if not os.path.exists(entry.data):
        return  # renamed to its place already
    if there is not None and stat.S_ISDIR(there.st_mode):
        _move_away(path, folder)
        there = None
    is_the_file = there is not None and (there.st_dev, there.st_ino) == (note["dev"], note["ino"])
    # Nobody but root can make a file of another owner.
    if is_the_file and (note["links"] > 1 or note["uid"] != os.geteuid()):
        _raise(_write_in_place(entry, path))
        return
    if there is not None:
        _keep_version(path, folder)
    whole = entry.data
    if _device(os.path.dirname(path)) != _device(entry.data):
        whole = _beside(entry)
        with open(entry.data, "rb") as source:
            _copy(source.fileno(), whole, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW)
    error = _give_metadata(whole, note)
    os.replace(whole, path)
    _raise(error)


def _write_in_place(entry: Entry, path: str) -> OSError | None:
    with contextlib.suppress(OSError):
        os.chmod(path, entry.note["mode"] | stat.S_IWUSR)
    with open(entry.data, "rb") as source:
        _copy(source.fileno(), path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW)
    return _give_metadata(path, entry.note)


def _put_name_back(entry: Entry, there: os.stat_result | None, folder: str) -> None:
    inode = os.path.join(os.path.dirname(entry.folder), entry.note["inode"], "itself")
    if there is not None and os.path.samestat(there, os.lstat(inode)):
        return
    if there is not None and stat.S_ISDIR(there.st_mode):
        _move_away(entry.path, folder)
    elif there is not None:
        _keep_version(entry.path, folder)
    whole = _beside(entry)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(whole)
    os.link(inode, whole)
    os.replace(whole, entry.path)


def _put_link_back(entry: Entry, there: os.stat_result | None, folder: str) -> None:
    path, target = entry.path, entry.note["target"]
    if there is not None and stat.S_ISDIR(there.st_mode):
        _move_away(path, folder)
    elif there is not None and stat.S_ISLNK(there.st_mode) and os.readlink(path) == target:
        _raise(_give_metadata(path, entry.note))
        return
    whole = _beside(entry)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(whole)
    os.symlink(target, whole)
    error = _give_metadata(whole, entry.note)
    os.replace(whole, path)
    _raise(error)


def _put_special_back(entry: Entry, there: os.stat_result | None, folder: str) -> None:
    kind = entry.note["type"]
    if there is not None and stat.S_IFMT(there.st_mode) == kind:
        return
    if kind != stat.S_IFIFO:
        raise OSError(errno.ENOTSUP, "a socket or device cannot be made again", entry.path)
    if there is not None:
        _move_away(entry.path, folder)
    os.mkfifo(entry.path, entry.note["mode"])
    _raise(_give_metadata(entry.path, entry.note))


def _finish(entry: Entry, folder: str) -> None:
    """Of a folder, when all in it is as it was; of a file whose rights or times were changed."""
    there = status_of(entry.path)
    if entry.kind == "inode":
        _raise(_give_metadata(entry.inode, entry.note))
    elif entry.kind == "folder" or (there is not None and stat.S_ISREG(there.st_mode)):
        _raise(_give_metadata(entry.path, entry.note))
    entry.forget()


def _device(path: str) -> int:
    return os.stat(path).st_dev


def _beside(entry: Entry) -> str:
    """The same name each time: one that was left by a killed process is used again."""
    return os.path.join(os.path.dirname(entry.path), f".vtune-{os.path.basename(entry.folder)}")


def _give_metadata(path: str, note: Mapping[str, Any]) -> OSError | None:
    """As much of it as this account may: the content comes back in any case. The first refusal, if any."""
    there, wanted = os.lstat(path), note["xattrs"]
    refused: list[OSError] = []

    def may(do: Callable[..., None], *arguments: object, **named: object) -> None:
        try:
            do(path, *arguments, **named)
        except OSError as error:
            refused.append(error)

    if (there.st_uid, there.st_gid) != (note["uid"], note["gid"]):
        may(os.chown, note["uid"], note["gid"], follow_symlinks=False)
    if not stat.S_ISLNK(there.st_mode) and stat.S_IMODE(os.lstat(path).st_mode) != note["mode"]:
        may(os.chmod, note["mode"])
    has = _attributes(path)
    for name in has.keys() - wanted.keys():
        may(os.removexattr, name, follow_symlinks=False)
    for name, value in wanted.items():
        if has.get(name) != value:
            may(os.setxattr, name, bytes.fromhex(value), follow_symlinks=False)
    may(os.utime, ns=(note["atime_ns"], note["mtime_ns"]), follow_symlinks=False)
    return refused[0] if refused else None


def _attributes(path: str) -> dict[str, str]:
    with contextlib.suppress(OSError):  # not every file system has them
        names = os.listxattr(path, follow_symlinks=False)
        return {name: os.getxattr(path, name, follow_symlinks=False).hex() for name in names}
    return {}


def _raise(error: OSError | None) -> None:
    if error is not None:
        raise error


# --- what the training made ---


def _move_away(path: str, folder: str) -> None:
    """Into the trial's folder; a folder without anything in it is removed."""
    if open_up(path):
        with contextlib.suppress(OSError):
            os.rmdir(path)
            return
    target = os.path.join(folder, WRITTEN, path.lstrip("/"))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if is_folder(path) and is_folder(target):
        # One of its files was moved before it.
        for name in os.listdir(path):
            _move_away(os.path.join(path, name), folder)
        os.rmdir(path)
        return
    try:
        os.rename(path, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY):
            raise
        _carry_over(path, target)


def _carry_over(path: str, target: str) -> None:
    """To another file system. Its copy gets its name when it is whole, and only then the first one is removed."""
    import shutil  # here: it is seldom needed

    draft = f"{target}.part"
    _remove(draft)
    if is_folder(path):
        shutil.copytree(path, draft, symlinks=True)
    else:
        shutil.copy2(path, draft, follow_symlinks=False)
    _remove(target)
    os.rename(draft, target)
    _remove(path)


def _keep_version(path: str, folder: str) -> None:
    """Where another name is free of cost, the training's own version stays with its trial."""
    target = os.path.join(folder, WRITTEN, path.lstrip("/"))
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.link(path, target, follow_symlinks=False)


_IDENTITY = ("dev", "ino", "size", "mtime_ns", "ctime_ns")


def _identity(there: os.stat_result) -> list[int]:
    return [there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns, there.st_ctime_ns]


def _copy(source: int, path: str, flags: int) -> None:
    target = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        size, position = os.fstat(source).st_size, 0
        # Holes stay holes.
        os.ftruncate(target, size)
        while position < size:
            piece = os.pread(source, _PIECE, position)
            if not piece:
                break
            if piece.count(0) != len(piece):
                os.pwrite(target, piece, position)
            position += len(piece)
    finally:
        os.close(target)


def _remove(path: str) -> None:
    """All of it; links are removed, not followed."""
    if open_up(path):
        for name in os.listdir(path):
            _remove(os.path.join(path, name))
        os.rmdir(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
