"""Folders whose files are kept from inside: one study at a time.

A second one would take files that the first has overwritten for the user's own, and put those back. Each study has a
file in this account's private folder. vtune and the supervisors of its trials lock it, so it is held until the last
trial's files are as they were, whoever is killed. The kernel gives it back.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtune.errors import MachineError, UsageError
from vtune.execution.ownership import private_place
from vtune.execution.process_tree import process_of
from vtune.journal.paths import StudyPaths

_SUFFIX = ".inside"
# Held while one looks for others and makes its own.
_GATE = ".inside-gate"
_PAUSE_S = 0.2
SUPERVISOR_PATIENCE_S = 5.0
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    pid: int
    study: str
    folders: tuple[str, ...]


@contextlib.contextmanager
def held(folders: Sequence[str], study: StudyPaths, *, wait: bool) -> Iterator[None]:
    """Raises UsageError where another study holds one of the folders, or one in it or around it."""
    path = _path_of(study)
    if path is None:
        raise MachineError(
            f"no folder of this account is private, so that another study could change {folders[0]} at the same time",
            hint="set XDG_STATE_HOME to a folder that you alone can write to",
        )
    give_up_s = time.monotonic() + SUPERVISOR_PATIENCE_S
    while isinstance(lock := _taken(path, folders, study), Holder):
        # The supervisor of a vtune that was killed a moment ago is putting files back.
        if not wait and (_lives(lock.pid) or time.monotonic() > give_up_s):
            raise UsageError(
                f"study {lock.study} (vtune with pid {lock.pid}) has trials that write in"
                f" {_shared(lock.folders, folders)}, whose files are kept from inside: one study at a time",
                hint="wait for it with --wait, or work in another copy of the folder",
            )
        time.sleep(_PAUSE_S)
    try:
        yield
    finally:
        os.close(lock)  # a supervisor that still lives holds it on


def hold_of(study: StudyPaths) -> str | None:
    """The file by which this study holds its folders; None where it holds none."""
    path = _path_of(study)
    return path if path is not None and os.path.exists(path) else None


def _path_of(study: StudyPaths) -> str | None:
    place = private_place()
    if place is None:
        return None
    name = hashlib.blake2b(os.fsencode(os.path.realpath(study.root)), digest_size=16).hexdigest()
    return os.path.join(place, f"{name}{_SUFFIX}")


def overlap(some: Sequence[str], others: Sequence[str]) -> bool:
    """The same folder, one in the other, or one around it."""
    return any(_is_within(a, b) or _is_within(b, a) for a in some for b in others)


def _taken(path: str, folders: Sequence[str], study: StudyPaths) -> int | Holder:
    import fcntl  # here: reports are read on systems without it

    gate = os.open(os.path.join(os.path.dirname(path), _GATE), _FLAGS, 0o600)
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        other = _other(path, folders)
        if other is not None:
            return other
        lock = os.open(path, _FLAGS, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            holder = {"pid": os.getpid(), "study": study.root.name, "folders": list(folders)}
            os.ftruncate(lock, 0)
            os.pwrite(lock, json.dumps(holder).encode(), 0)
        except BaseException:
            os.close(lock)
            raise
        return lock
    finally:
        os.close(gate)


def _other(path: str, folders: Sequence[str]) -> Holder | None:
    """Also a supervisor of the same study that is still putting files back. The gate is held."""
    import fcntl  # here: reports are read on systems without it

    for one in sorted(Path(path).parent.glob(f"*{_SUFFIX}")):
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(one, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                one.unlink()
            except BlockingIOError:
                holder = _read(lock)
                if str(one) == path or overlap(holder.folders, folders):
                    return holder
            finally:
                os.close(lock)
    return None


def _read(lock: int) -> Holder:
    try:
        told: dict[str, Any] = json.loads(os.pread(lock, 2**20, 0))
        return Holder(pid=int(told["pid"]), study=str(told["study"]), folders=tuple(map(str, told["folders"])))
    except (ValueError, KeyError, TypeError):
        # A full disk: nobody knows its folders.
        return Holder(pid=0, study="of unknown name", folders=("/",))


def _lives(pid: int) -> bool:
    process = process_of(pid)
    return process is not None and process.living


def _shared(some: Sequence[str], others: Sequence[str]) -> str:
    return next((b for b in others if overlap(some, (b,))), others[0])


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
