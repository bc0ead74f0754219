"""Segments of shared memory that a trial left behind: found by who used them, never guessed.

Loaded by the supervisor, like process_tree.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterable

SHM = "/dev/shm"
# Who creates segments named after the process: torch, OpenMP runtimes, multiprocessing, joblib and its loky.
_NAMED_AFTER_PID = re.compile(
    r"(?:sem\.)?(?:torch_|__KMP_REGISTERED_LIB_|pym-|pymp-|loky-|joblib_memmapping_folder_)(\d+)(?:[_-]|$)"
)
_DELETED = b" (deleted)"
_STEPS_OF = re.compile(r"steps-(\d+)\.(?:bin|jsonl)$")
_WORKERS = re.compile(rb'"worker_pids": \[([^\]]*)\]')
_MOST_FACTS_BYTES = 16 * 2**20


class Segments:
    """Which of the machine's segments are one trial's, as far as it was seen using them or they bear its numbers."""

    def __init__(self) -> None:
        self.before = segments()
        self.ours: set[str] = set()
        self.pids_seen: set[int] = set()
        self._seen = self.before

    def are_more(self) -> bool:
        """Whether there are any that were not there at the last time of asking."""
        names = segments()
        if names <= self._seen:
            return False
        self._seen = names
        return True

    def claim(self, users: Iterable[int]) -> bool:
        """Whether there were any to claim."""
        known = len(self.ours)
        candidates = segments() - self.before - self.ours
        self.ours |= claim(candidates, users=users, namesakes=self.pids_seen)
        return len(self.ours) > known

    def remove(self, folder: str) -> tuple[str, ...]:
        self.pids_seen |= pids_told(folder)
        self.claim([])
        return remove(self.ours)

    def left(self) -> tuple[str, ...]:
        """New, this user's, and used by nobody: a file that was written and closed is never seen in use. Not those of
        another program: it uses them now, or they bear the number of a process outside the trial."""
        mine = []
        for name in _unused(name for name in segments() - self.before - self.ours if not self._is_anothers(name)):
            with contextlib.suppress(OSError):
                if os.lstat(os.path.join(SHM, name)).st_uid == os.geteuid():
                    mine.append(name)
        return tuple(sorted(mine))

    def _is_anothers(self, name: str) -> bool:
        owner = _NAMED_AFTER_PID.match(name)
        return owner is not None and int(owner[1]) not in self.pids_seen


def segments() -> set[str]:
    try:
        return set(os.listdir(SHM))
    except OSError:
        return set()


def claim(candidates: Collection[str], *, users: Iterable[int], namesakes: Collection[int]) -> set[str]:
    """Those that one of the users has opened or mapped, and those named after a process, which may be dead."""
    if not candidates:
        return set()
    claimed = {name for name in candidates if (m := _NAMED_AFTER_PID.match(name)) and int(m[1]) in namesakes}
    for pid in users:
        claimed |= _used_by(pid).intersection(candidates)
    return claimed


def pids_told(folder: str) -> set[int]:
    """Processes of a trial as its own files name them: a worker that dies at its first batch is seen by no look."""
    found: set[int] = set()
    try:
        names = os.listdir(folder)
    except OSError:
        return found
    for name in names:
        own = _STEPS_OF.match(name)
        if own is None:
            continue
        found.add(int(own[1]))
        if name.endswith(".jsonl"):
            with contextlib.suppress(OSError), open(os.path.join(folder, name), "rb") as file:
                for told in _WORKERS.findall(file.read(_MOST_FACTS_BYTES)):
                    found.update(int(pid) for pid in told.split(b",") if pid.strip().isdigit())
    return found


def remove(names: Collection[str]) -> tuple[str, ...]:
    """Remove those that nobody uses any more; to be called once the trial's own processes are gone."""
    removed = []
    for name in sorted(_unused(set(names) & segments())):
        path = os.path.join(SHM, name)
        with contextlib.suppress(OSError):
            if os.path.isdir(path) and not os.path.islink(path):
                import shutil  # here: its import would delay the start of every trial

                shutil.rmtree(path)
            else:
                os.unlink(path)
            removed.append(name)
    return tuple(removed)


def _unused(names: Iterable[str]) -> set[str]:
    """By no process of this machine that may be looked into."""
    left = set(names)
    for pid in os.listdir("/proc") if left else ():
        if pid.isdigit():
            left -= _used_by(int(pid))
    return left


def _used_by(pid: int) -> set[str]:
    prefix = os.fsencode(SHM) + b"/"
    paths: list[bytes] = []
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", "rb") as file:
        maps = file.read()
        if prefix in maps:
            paths += [line.split(None, 5)[5] for line in maps.splitlines() if prefix in line]
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                paths.append(os.readlink(os.fsencode(f"/proc/{pid}/fd/{descriptor}")))
    # A file in a folder below counts as use of the folder (joblib).
    return {
        os.fsdecode(path[len(prefix) :].split(b"/")[0])
        for path in paths
        if path.startswith(prefix) and not path.endswith(_DELETED)
    }
