"""The processes of this machine as /proc shows them: who descends from whom, who carries a trial's token.

Loaded by the supervisor, which has to be up in some 15 ms: nothing beyond the cheap part of the standard library.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping

TOKEN_VARIABLE = "VTUNE_TOKEN"
# A process in an uninterruptible sleep (dead network storage, a GPU driver) cannot be killed by anybody: waiting for
# ever would hang vtune as well.
_KILL_PATIENCE_S = 60.0


class Process:
    """One process. The start time tells it from a later one with the same number."""

    # Neither a dataclass nor a NamedTuple: both cost the supervisor 3 to 8 ms of imports.
    __slots__ = ("living", "pid", "ppid", "started_ticks")

    def __init__(self, pid: int, ppid: int, started_ticks: int, living: bool) -> None:
        self.pid = pid
        self.ppid = ppid
        self.started_ticks = started_ticks
        self.living = living


def processes() -> dict[int, Process]:
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            process = process_of(int(name))
            if process is not None:
                table[process.pid] = process
    return table


def process_of(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            line = file.read(4096)
    except OSError:
        return None
    # The name stands in parentheses and may itself hold spaces and parentheses.
    fields = line[line.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    # A zombie with more than one thread is a main thread that left before the others: they still run.
    living = fields[0] not in b"ZX" or int(fields[17]) > 1
    return Process(pid, int(fields[1]), int(fields[19]), living)


def descendants(roots: Iterable[int], table: Mapping[int, Process]) -> dict[int, Process]:
    """Everything below the roots, without them."""
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.ppid, []).append(process)
    found: dict[int, Process] = {}
    open_pids = list(roots)
    while open_pids:
        for child in children.get(open_pids.pop(), ()):
            if child.pid not in found:
                found[child.pid] = child
                open_pids.append(child.pid)
    return found


def tree_below(root: int) -> dict[int, Process]:
    """The same by asking each process of the tree for its children: a machine has many processes beside them. A kernel
    that does not tell them has all processes read."""
    if not os.path.exists("/proc/thread-self/children"):
        return descendants([root], processes())
    found: dict[int, Process] = {}
    open_pids = [root]
    while open_pids:
        for pid in _children_of(open_pids.pop()):
            process = process_of(pid) if pid not in found else None
            if process is not None:
                found[pid] = process
                open_pids.append(pid)
    return found


def _children_of(pid: int) -> list[int]:
    found: list[int] = []
    # A process or a thread of it may leave meanwhile.
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:
                found += map(int, file.readall().split())
    return found


def carriers(token: str, table: Mapping[int, Process]) -> dict[int, Process]:
    """Processes that were started with this token in their environment, wherever they hang now."""
    mark = os.fsencode(f"{TOKEN_VARIABLE}={token}")
    found = {}
    for process in table.values():
        try:
            with open(f"/proc/{process.pid}/environ", "rb", buffering=0) as file:
                environment = file.readall()
        except OSError:  # gone meanwhile, or somebody else's
            continue
        if mark in environment and mark in environment.split(b"\0"):
            found[process.pid] = process
    return found


def trial_processes(token: str, roots: Iterable[int]) -> list[Process]:
    """What lives of a trial: below the roots, carrying the token, or below one that does. Never the caller itself."""
    table = processes()
    found = descendants(roots, table)
    marked = carriers(token, table)
    found.update(marked)
    found.update(descendants(marked, table))
    not_ours = {os.getpid(), os.getppid()}
    return [process for process in found.values() if process.living and process.pid not in not_ours]


def send(process: Process, signum: int) -> None:
    """Signal this very process: never a later one that was given its number."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    except OSError:  # no pidfd in this sandbox: the start time still guards, with a gap of microseconds
        if _is_still(process):
            with contextlib.suppress(OSError):
                os.kill(process.pid, signum)
        return
    try:
        if _is_still(process):
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(pidfd, signum)
    finally:
        os.close(pidfd)


def kill_all(find: Callable[[], list[Process]], between: Callable[[], None]) -> None:
    """SIGKILL in rounds until nothing is found: a process may have forked while it was being listed."""
    give_up_s = time.monotonic() + _KILL_PATIENCE_S
    while (found := find()) and time.monotonic() < give_up_s:
        for process in found:
            send(process, signal.SIGKILL)
        between()


def _is_still(process: Process) -> bool:
    now = process_of(process.pid)
    return now is not None and now.started_ticks == process.started_ticks


def boot_id() -> str:
    """Process numbers, start times and segments mean nothing after a reboot or on another machine."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""
