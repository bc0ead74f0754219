"""A changed config put in the place of the user's own, which is kept beside it."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from vtune.errors import StorageError, UsageError

_MOST_NAMES = 1000


def write_edit(file: Path, before: bytes, after: bytes) -> Path:
    """Returns the backup. Through a link to the file that it names; mode and owner stay."""
    target = file.resolve()
    with _said_plainly(file):
        _check_unchanged(file, target, before)
        # A rename asks the folder only; who took away the right to write the file meant something by it.
        if not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        beside = Path(name)
        try:
            _fill(handle, beside, after, like=target)
            os.utime(beside)
            with _backup(target, before) as backup:
                # Once more: what an editor saved meanwhile is not lost.
                _check_unchanged(file, target, before)
                os.replace(beside, target)
        finally:
            beside.unlink(missing_ok=True)
        _sync_folder(target.parent)
    return backup


def write_beside(file: Path, name: Path, text: str) -> Path:
    """A file of its own, for the eyes that may see the config; never over another one of that name."""
    target = free_name(name, text)
    with _said_plainly(target):
        if not os.path.exists(target):
            with open(_created(target), "wb") as out:
                out.write(text.encode())
            shutil.copymode(file, target)
    return target


def free_name(name: Path, text: str) -> Path:
    """The next one that nobody has, or that holds the same already."""
    for number in range(_MOST_NAMES):
        found = name.with_name(f"{name.stem}.{number}{name.suffix}") if number else name
        if not os.path.lexists(found):
            return found
        with contextlib.suppress(OSError):
            if found.read_bytes() == text.encode():
                return found
    raise UsageError(f"{name} is there {_MOST_NAMES} times", hint="clear them away")


@contextlib.contextmanager
def _said_plainly(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{file} cannot be written: {error.strerror}",
            hint="nothing was changed; its folder has to take a backup and a new file",
        ) from error


def _check_unchanged(file: Path, target: Path, before: bytes) -> None:
    if target.read_bytes() != before:
        raise UsageError(f"{file} has changed meanwhile: it was left as it is", hint="say it again")


@contextlib.contextmanager
def _backup(file: Path, content: bytes) -> Iterator[Path]:
    """Gone again where nothing came of what it was made for."""
    backup, handle = _first_free(file)
    try:
        _fill(handle, backup, content, like=file)
        yield backup
    except BaseException:
        backup.unlink(missing_ok=True)
        raise


def _first_free(file: Path) -> tuple[Path, int]:
    """Never over an earlier backup: the first is what the user began with."""
    for number in range(_MOST_NAMES):
        backup = file.with_name(f"{file.name}.bak{f'.{number}' if number else ''}")
        with contextlib.suppress(FileExistsError):
            return backup, _created(backup)
    raise UsageError(f"{file} has {_MOST_NAMES} backups", hint="clear them away")


def _created(path: Path) -> int:
    """Nobody else's file, and at first for nobody else to read."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)


def _fill(handle: int, path: Path, content: bytes, *, like: Path) -> None:
    """With owner, mode, times and attributes."""
    with open(handle, "wb") as out:
        out.write(content)
        owner, own = like.stat(), os.fstat(handle)
        if (owner.st_uid, owner.st_gid) != (own.st_uid, own.st_gid):
            try:
                os.chown(handle, owner.st_uid, owner.st_gid)
            except OSError as error:
                raise PermissionError(errno.EPERM, "it would not belong any more to whom it belongs") from error
        out.flush()
        os.fsync(handle)
    shutil.copystat(like, path)


def _sync_folder(folder: Path) -> None:
    """So that the new name outlives a power cut; a file system that knows no such thing has the file all the same."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
