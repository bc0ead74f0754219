"""Writing that a crash cannot tear, and the words for a disk that refuses."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from vtune.errors import StorageError

# Files and folders that may hold secrets are for the account that started vtune alone.
PRIVATE, PRIVATE_FOLDER = 0o600, 0o700
DISK_REFUSES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_IN_THE_WAY = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR)
_REFUSED = (*DISK_REFUSES, *_IN_THE_WAY, errno.EACCES, errno.EPERM)
ANOTHER_PLACE = "or choose another place with --results DIR"
MAKE_ROOM = f"make room there, {ANOTHER_PLACE}"


def write_atomically(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Readers see the old file or the new one, also after a power cut. `mode`: as far as the umask lets it be."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        # Line ends as they are: a CSV file has its own.
        with open(beside, "w", encoding="utf-8", newline="", opener=partial(_created, mode=mode)) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        # A failed write does not say which file it was.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def _created(path: str, flags: int, mode: int) -> int:
    """Never through a link that somebody put there."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


@contextlib.contextmanager
def said_plainly(folder: Path) -> Iterator[None]:
    """What is refused below this folder, where vtune keeps what it measures, is no defect of vtune."""
    try:
        yield
    except OSError as error:
        if error.errno not in _REFUSED or not _is_below(error.filename, folder):
            raise
        raise refused(error, f"cannot write to {error.filename}") from error


def refused(error: OSError, what: str, *, record: object = None) -> StorageError:
    return StorageError(f"{what}: {error.strerror}", hint=_way_out(error), record=record)


def _way_out(error: OSError) -> str:
    if error.errno in _FULL:
        return MAKE_ROOM
    if error.errno in _IN_THE_WAY:
        return f"move away what is in its place, {ANOTHER_PLACE}"
    if error.errno == errno.EROFS:
        return f"mount it for writing, {ANOTHER_PLACE}"
    if error.errno == errno.EIO:
        return f"look into the kernel's log for what is wrong with the disk, {ANOTHER_PLACE}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"let this account read and write there, {ANOTHER_PLACE}"
    return ANOTHER_PLACE.removeprefix("or ")


def _is_below(path: object, folder: Path) -> bool:
    return isinstance(path, str | os.PathLike) and Path(path).absolute().is_relative_to(folder.absolute())
