"""A changed config put in the place of the user's own, which is kept beside it."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from vtune.errors import StorageError, UsageError
from vtune.files import write_atomically


def write_edit(file: Path, before: bytes, after: bytes) -> Path:
    """Returns the backup. Through a link to the file that it names; mode and owner stay."""
    target = file.resolve()
    try:
        if target.read_bytes() != before:
            raise UsageError(f"{file} has changed meanwhile: it was left as it is", hint="say it again")
        backup = _backup(target)
        beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            shutil.copy2(target, beside)
            with contextlib.suppress(OSError):
                owner = target.stat()
                os.chown(beside, owner.st_uid, owner.st_gid)
            with beside.open("wb") as out:
                out.write(after)
                out.flush()
                os.fsync(out.fileno())
            os.replace(beside, target)
        finally:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{file} cannot be written: {error.strerror}", hint="it is as it was") from error
    return backup


def write_beside(target: Path, text: str) -> Path:
    try:
        write_atomically(target, text)
    except OSError as error:
        raise StorageError(f"{target} cannot be written: {error.strerror}") from error
    return target


def _backup(file: Path) -> Path:
    """Never over an earlier one: the first is what the user began with."""
    for number in range(1000):
        backup = file.with_name(f"{file.name}.bak{f'.{number}' if number else ''}")
        try:
            with backup.open("xb") as out:
                out.write(file.read_bytes())
                out.flush()
                os.fsync(out.fileno())
        except FileExistsError:
            continue
        shutil.copystat(file, backup)
        return backup
    raise UsageError(f"{file} has a thousand backups", hint="clear them away")
