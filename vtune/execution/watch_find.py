"""Which trainings run on this machine, and whose they are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vtune.analysis.watching.roles import WORKER_NAME, roles_of
from vtune.domain.watching import Seen
from vtune.errors import UsageError
from vtune.execution.launch_running import left_unguarded
from vtune.execution.process_tree import Process, descendants, process_of, processes
from vtune.execution.watch_launch import attempt_of, folders_of, study_of
from vtune.execution.watch_tree import seen_process
from vtune.journal.find_study import find_study
from vtune.journal.launch_files import read_object
from vtune.journal.paths import StudyPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    pid: int
    command: str
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    pid: int
    # Whose trial or launch it is; None where it was started otherwise.
    study: StudyPaths | None = None


def find_training(named: str | None, results: Path) -> Found:
    """The process whose tree is watched: that of a number, of a study, or the only one there is."""
    if named is not None and named.isdecimal():
        return _found(_by_pid(int(named)))
    running = running_trainings()
    try:
        study: StudyPaths | None = find_study(results, named)
    except UsageError:
        if named is not None:
            raise
        study = None
    ours = [one for one in running if study is not None and _is_of(one.pid, study.root.resolve())]
    if named is not None and not ours:
        left = [] if study is None else left_unguarded(study)
        how = f"launch {left[-1].number} {left[-1].how}\n      " if left else ""
        raise UsageError(f"nothing of study {named} runs on this machine", hint=how + _listed(running))
    chosen = ours or running
    if not chosen:
        what = "no training runs on this machine, as far as its processes may be looked at"
        raise UsageError(what, hint="name its process, if you know it: vtune watch PID")
    if len(chosen) > 1:
        raise UsageError(f"{len(chosen)} trainings run on this machine: which one?", hint=_listed(chosen))
    return Found(pid=chosen[0].pid, study=study) if ours else _found(chosen[0].pid)


def _found(pid: int) -> Found:
    attempt = attempt_of(pid)
    return Found(pid=pid, study=None if attempt is None else study_of(attempt))


def running_trainings() -> list[Training]:
    """Each by its topmost process. Never what this process runs in."""
    table = processes()
    ours, own = set(), os.getpid()
    while own in table and own not in ours:
        ours.add(own)
        own = table[own].ppid
    seen = {pid: one for pid, process in table.items() if pid not in ours and (one := _if_python(process)) is not None}
    roles = roles_of(seen)
    found = []
    for pid in sorted(pid for pid, role in roles.items() if role in ("training", "launcher")):
        above = _ancestors(pid, table)
        if any(roles.get(one) in ("training", "launcher") for one in above):
            continue
        below = descendants([pid], table)
        workers = sum(roles.get(one) == "worker" for one in below)
        found.append(Training(pid=pid, command=_plain(" ".join(seen[pid].command)), workers=workers))
    return found


def _by_pid(pid: int) -> int:
    """A worker's number means its training, and so does that of a launch's guard or supervisor."""
    process = process_of(pid)
    if process is None or not process.living:
        raise UsageError(f"there is no process {pid}", hint=_listed(running_trainings()))
    table = processes()
    if not seen_process(process).name.startswith(WORKER_NAME):
        return pid if folders_of(pid) else next((one for one in sorted(descendants([pid], table)) if _leads(one)), pid)
    seen = {one: seen_process(table[one]) for one in (pid, *_ancestors(pid, table)) if one in table}
    roles = roles_of(seen)
    return next((one for one in _ancestors(pid, table) if roles.get(one) == "training"), pid)


def _if_python(process: Process) -> Seen | None:
    try:
        executable = os.path.basename(os.readlink(f"/proc/{process.pid}/exe"))
    except OSError:
        # Another user's: its name and its command line are for everybody.
        executable = "python"
    if not process.living or not executable.startswith(("python", "pypy")):
        return None
    seen = seen_process(process)
    return seen if seen.command != ("",) else None


def _leads(pid: int) -> bool:
    """A launch."""
    attempt = attempt_of(pid)
    return attempt is not None and read_object(attempt.supervisor).get("leader_pid") == pid


def _is_of(pid: int, study: Path) -> bool:
    return any(folder.is_relative_to(study) for folder in folders_of(pid))


def _listed(found: list[Training]) -> str:
    if not found:
        return "no training runs on this machine, as far as its processes may be looked at"
    # What has loader workers is the likelier one: torch's libraries are in many a process.
    likeliest = sorted(found, key=lambda one: (one.workers == 0, one.pid))
    rows = [f"vtune watch {one.pid}   # {_workers(one.workers)}: {one.command}" for one in likeliest]
    return "\n      ".join(rows)


def _workers(count: int) -> str:
    return f"{count} loader worker{'' if count == 1 else 's'}"


def _plain(text: str) -> str:
    """Others' command lines may hold anything."""
    return "".join(c if c.isprintable() else " " for c in text[:100])


def _ancestors(pid: int, table: Mapping[int, Process]) -> list[int]:
    found: list[int] = []
    above = table[pid].ppid
    while above in table and above not in found:
        found.append(above)
        above = table[above].ppid
    return found
