"""One study open for writing: its folder, its lock, its journal."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from vtune.domain.machine import Machine
from vtune.errors import UsageError
from vtune.files import PRIVATE_FOLDER, refused, said_plainly, write_atomically
from vtune.foreign.read import read_json
from vtune.journal.files import dump_json
from vtune.journal.journal import Journal
from vtune.journal.links import refuse_links
from vtune.journal.paths import StudyPaths, TrialPaths, last_study_file

# Of a value of another machine's file, in an error.
LONGEST_SHOWN = 80


class Study:
    def __init__(self, paths: StudyPaths) -> None:
        self.paths = paths
        self.journal = Journal(paths.journal)

    def next_trial(self) -> int:
        """Never a number that was used, also by a trial whose vtune died before it could be recorded."""
        return max([0, *self.journal.numbers(), *self.paths.trial_numbers()]) + 1

    def new_trial_folder(self, number: int) -> TrialPaths:
        folder = self.paths.trial(number)
        folder.root.mkdir(PRIVATE_FOLDER, parents=True)
        return folder


@contextlib.contextmanager
def open_study(results: Path, name: str, machine: Machine, *, wait: bool = False) -> Iterator[Study]:
    """Creates the folder if needed, refuses a second vtune and another machine's journal."""
    paths = StudyPaths(results / name)
    with said_plainly(results), _locked(paths, wait=wait):
        if not check_machine(paths, machine):
            dump_json(paths.machine, machine)
        write_atomically(last_study_file(results), name + "\n")
        yield Study(paths)


@contextlib.contextmanager
def _locked(paths: StudyPaths, *, wait: bool) -> Iterator[None]:
    refuse_links(paths)
    try:
        paths.trials.mkdir(parents=True, exist_ok=True)
        lock = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise refused(error, f"cannot write to {error.filename}") from error
    try:
        _take(lock, paths, wait=wait)
        yield
    finally:
        os.close(lock)  # closing gives the lock back


def _take(lock: int, paths: StudyPaths, *, wait: bool) -> None:
    import fcntl  # there is none on Windows, where journals can be read all the same

    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if not wait:
                raise UsageError(
                    f"study {paths.root.name} is in use by vtune with pid {_owner(lock)}",
                    hint="wait for it with --wait, or choose another study with --study NAME",
                ) from None
            time.sleep(0.5)
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def used_by(paths: StudyPaths) -> str | None:
    """The process that has the study open for writing, as it has said."""
    import fcntl

    try:
        lock = os.open(paths.lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _owner(lock)
    finally:
        os.close(lock)
    return None


def _owner(lock: int) -> str:
    return os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def check_machine(paths: StudyPaths, machine: Machine) -> bool:
    """Two machines never share a journal: their numbers cannot be compared. False where none is known of it yet."""
    try:
        known = read_json(paths.machine)
    except (OSError, ValueError):
        return False
    here = {
        "host": machine.host,
        "cpu_model": machine.cpu_model,
        "cores": machine.cores,
        "declared_cores": machine.declared_cores,
        "gpus": list(machine.gpus),
    }
    if not isinstance(known, dict):
        return False
    there = {key: known.get(key) for key in here}
    if here != there:
        changed = ", ".join(
            f"{key} was {str(there[key])[:LONGEST_SHOWN]}, is {here[key]}" for key in here if here[key] != there[key]
        )
        raise UsageError(
            f"study {paths.root.name} was measured on another machine ({changed})",
            hint="start it as it was started then, with the emulated GPU's driver (docs/rehearsal.md)"
            if any(str(name).startswith("Emulated") for name in _listed(there["gpus"]))
            else "start a study of its own with --study NAME",
        )
    return True
