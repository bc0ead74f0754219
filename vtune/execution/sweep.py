"""What is left of a trial whose supervisor was killed: ended and removed by those who come after it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vtune.domain.trial import TrialOutcome
from vtune.execution import shm
from vtune.execution.memory_group import remove_group
from vtune.execution.process_tree import Process, boot_id, kill_all, process_of, trial_processes
from vtune.execution.supervisor import STRAGGLER_GRACE_S
from vtune.execution.tmpdir import remove_tmpdir
from vtune.files import refused
from vtune.foreign.read import read_json
from vtune.journal.files import dump_json
from vtune.journal.paths import TrialPaths

# The supervisor of a vtune that was killed a moment ago is just clearing up: it knows more than a sweep does.
SUPERVISOR_PATIENCE_S = 5.0


def sweep(token: str, folder: Path, *, last_seen: Sequence[Process] = ()) -> TrialOutcome:
    """End whatever carries the token, remove its segments and its temporary folder, write the outcome.

    `last_seen`: the trial's processes at the last look, for those that dropped the token from their environment.
    """
    paths = TrialPaths(folder)
    state = _read(paths.supervisor)
    known = {process.pid: process.started_ticks for process in last_seen}

    def living() -> list[Process]:
        still = [p for pid, ticks in known.items() if (p := process_of(pid)) and p.living and p.started_ticks == ticks]
        found = {p.pid: p for p in (*still, *trial_processes(token, [p.pid for p in still]))}
        known.update({p.pid: p.started_ticks for p in found.values()})
        return list(found.values())

    removed: tuple[str, ...] = ()
    stopped: list[Process] = []
    # After a reboot, or on another machine, those numbers and names are other people's.
    if state.get("boot_id", boot_id()) == boot_id():
        leader = [state["leader_pid"]] if state.get("leader_pid") else []
        ours = set(state.get("shm_ours", ()))
        # The leader died with its supervisor; who only has to clean up after it gets the chance to.
        give_up_s = time.monotonic() + STRAGGLER_GRACE_S
        while (stopped := living()) and time.monotonic() < give_up_s:
            ours |= _segments_of(stopped, known, leader, state)
            time.sleep(0.05)
        ours |= _segments_of(stopped, known, leader, {**state, "pids_told": shm.pids_told(str(folder))})
        kill_all(living, lambda: time.sleep(0.02))
        removed = shm.remove(ours)
        if state.get("group"):
            remove_group(state["group"])
    if state.get("tmpdir"):
        remove_tmpdir(state["tmpdir"])
    outcome = TrialOutcome(
        ended_by="lost",
        exit_code=None,
        signal=None,
        seconds=_seconds(paths),
        stragglers=len(stopped),
        shm_removed=removed,
        defect=_defect(paths),
    )
    # On a full disk, or in a folder that somebody removed, it cannot be kept: whoever asked is told all the same.
    with contextlib.suppress(OSError):
        dump_json(paths.outcome, outcome)
    return outcome


def sweep_stale(trials: Path) -> list[Path]:
    """Finish the trials that a killed vtune and a killed supervisor left; the study's lock must be held."""
    try:
        return _sweep_stale(trials)
    except PermissionError as error:
        # Another account's: whether anything of it still runs, and holds memory, cannot be told.
        raise refused(error, f"cannot look into {error.filename}") from error


def _sweep_stale(trials: Path) -> list[Path]:
    stale = []
    for folder in sorted(trials.iterdir()) if trials.is_dir() else ():
        paths = TrialPaths(folder)
        give_up_s = time.monotonic() + SUPERVISOR_PATIENCE_S
        while _is_unfinished(paths) and supervisor_lives(folder) and time.monotonic() < give_up_s:
            time.sleep(0.05)
        if _is_unfinished(paths) and not supervisor_lives(folder):
            token = _read(paths.spec).get("token")
            if token:
                sweep(token, folder)
                stale.append(folder)
    return stale


def supervisor_lives(folder: Path) -> bool:
    state = _read(TrialPaths(folder).supervisor)
    pid = state.get("supervisor_pid")
    if pid is None or state.get("boot_id") != boot_id():
        return False
    process = process_of(pid)
    return process is not None and process.living and process.started_ticks == state.get("supervisor_started_ticks")


def _is_unfinished(paths: TrialPaths) -> bool:
    return paths.supervisor.exists() and not paths.outcome.exists()


def _segments_of(
    living: Sequence[Process], known: dict[int, int], leader: list[int], state: dict[str, Any]
) -> set[str]:
    if "shm_before" not in state:  # nothing is known to be new, so nothing is ours
        return set()
    new = shm.segments() - set(state["shm_before"])
    namesakes = {*known, *leader, *state.get("pids_told", ())}
    return shm.claim(new, users=[process.pid for process in living], namesakes=namesakes)


def _defect(paths: TrialPaths) -> str | None:
    """The last line of a trace is the error."""
    try:
        lines = paths.supervisor_log.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return None
    return next((line.strip() for line in reversed(lines) if line.strip()), None)


def _seconds(paths: TrialPaths) -> float:
    """From the spec to the last sign of life in any file: nobody saw the end."""
    try:
        times = [path.stat().st_mtime for path in paths.root.iterdir()]
        return max(0.0, max(times) - paths.spec.stat().st_mtime)
    except (OSError, ValueError):
        return 0.0


def _read(path: Path) -> dict[str, Any]:
    try:
        item = read_json(path)
    except (OSError, ValueError):
        return {}
    return item if isinstance(item, dict) else {}
