"""What is left of a trial whose supervisor was killed: ended and removed by those who come after it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vtune.domain.progress import FilesPutBack
from vtune.domain.trial import TrialOutcome
from vtune.execution import overlay, shm
from vtune.execution.inside_hold import overlap
from vtune.execution.memory_group import remove_group
from vtune.execution.ownership import forget, proof_of, recorded
from vtune.execution.process_tree import Process, boot_id, kill_all, process_of, trial_processes
from vtune.execution.restore import KEPT, restore
from vtune.execution.state_files import remove_unfinished
from vtune.execution.supervisor import STRAGGLER_GRACE_S
from vtune.execution.tmpdir import remove_tmpdir
from vtune.files import refused
from vtune.foreign.read import read_json
from vtune.journal.file_facts import files_not_restored
from vtune.journal.files import dump_json
from vtune.journal.paths import TrialPaths

# The supervisor of a vtune that was killed a moment ago is just clearing up: it knows more than a sweep does.
SUPERVISOR_PATIENCE_S = 5.0


def sweep(
    token: str, folder: Path, *, last_seen: Sequence[Process] = (), made_by_others: tuple[int, int] | None = None
) -> TrialOutcome:
    """End whatever carries the token, remove its segments and its temporary folder, write the outcome.

    The token is of a trial that this very process started, or that is proven (see `ownership`); all other facts come
    from the proof. `last_seen`: the trial's processes at the last look, for those that dropped the token from their
    environment. `made_by_others`: as `restore` takes it.
    """
    paths = TrialPaths(folder)
    proof = proof_of(token, folder) or {}
    known = {process.pid: process.started_ticks for process in last_seen}

    def living() -> list[Process]:
        still = [p for pid, ticks in known.items() if (p := process_of(pid)) and p.living and p.started_ticks == ticks]
        found = {p.pid: p for p in (*still, *trial_processes(token, [p.pid for p in still]))}
        known.update({p.pid: p.started_ticks for p in found.values()})
        return list(found.values())

    removed: tuple[str, ...] = ()
    stopped: list[Process] = []
    # After a reboot, or on another machine, those numbers and names are other people's.
    if not proof or _is_of_this_boot(proof):
        leader = [proof["leader_pid"]] if proof.get("leader_pid") else []
        ours = set(proof.get("shm_ours", ()))
        # The leader died with its supervisor; who only has to clean up after it gets the chance to.
        give_up_s = time.monotonic() + STRAGGLER_GRACE_S
        if living():
            # It has gone on to this day. The versions that are replaced stay in `written/`.
            made_by_others = None
        while (stopped := living()) and time.monotonic() < give_up_s:
            ours |= _segments_of(stopped, known, leader, proof)
            time.sleep(0.05)
        ours |= _segments_of(stopped, known, [*leader, *shm.pids_told(str(folder))], proof)
        kill_all(living, lambda: time.sleep(0.02))
        removed = shm.remove(ours)
        if proof.get("group"):
            remove_group(proof["group"])
    if proof.get("tmpdir"):
        remove_tmpdir(proof["tmpdir"])
    if proof.get("supervisor_pid"):
        remove_unfinished(str(folder), proof["supervisor_pid"])
        overlay.finish(str(folder))
        restore(str(folder), made_by_others)
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
    forget(token)
    return outcome


def sweep_stale(trials: Path) -> list[Path]:
    """Finish the trials that a killed vtune and a killed supervisor left; the study's lock must be held.

    Only those that this account's own vtune made, in this very folder: a study of somebody else is left as it is.
    """
    try:
        return _sweep_stale(trials)
    except PermissionError as error:
        # Another account's: whether anything of it still runs, and holds memory, cannot be told.
        raise refused(error, f"cannot look into {error.filename}") from error


def _sweep_stale(trials: Path) -> list[Path]:
    return [folder for folder in _unfinished(trials) if sweep_if_stale(folder)]


def sweep_overlapping(folders: Sequence[str]) -> list[Path]:
    """Finish the lost trials of all studies of this account that changed files in these folders: else the next trial
    takes the changed files for the user's own."""
    return [folder for folder in map(Path, recorded()) if _wrote_in(folder, folders) and sweep_if_stale(folder)]


def _wrote_in(folder: Path, folders: Sequence[str]) -> bool:
    paths = TrialPaths(folder)
    protection = _read(paths.protection)
    its_own = protection.get("folders")
    return (
        protection.get("by") == "inside"
        and isinstance(its_own, list)
        and overlap(list(map(str, its_own)), folders)
        and not paths.outcome.exists()
    )


def files_put_back(folder: Path) -> FilesPutBack | None:
    """By a sweep of it. None where the trial had changed none of the user's files."""
    paths = TrialPaths(folder)
    failed = files_not_restored(paths)
    if _read(paths.protection).get("by") != "inside" and not failed:
        return None
    listed = _read(paths.written)
    changed = {str(path) for kind in ("changed", "removed") for path in listed.get(kind) or ()}
    new = {str(path) for path in listed.get("new") or ()}
    if not (changed or new or failed):
        return None
    return FilesPutBack(
        trial=str(folder),
        put_back=len(changed - failed.keys()),
        moved=len({path for path in new if path.rstrip("/") not in failed}),
        not_put_back=tuple(failed.items()),
    )


def sweep_if_stale(folder: Path) -> bool:
    paths = TrialPaths(folder)
    token = _read(paths.spec).get("token")
    proof = proof_of(token, folder)
    if proof is None:
        return False
    with _alone(folder):
        return _sweep_if_stale(paths, str(token), proof)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Another study may be about to sweep the same trial."""
    import fcntl  # here: reports are read on systems without it

    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a file system without locks
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def _sweep_if_stale(paths: TrialPaths, token: str, proof: Mapping[str, Any]) -> bool:
    give_up_s = time.monotonic() + SUPERVISOR_PATIENCE_S
    while not paths.outcome.exists() and (lives := _lives(proof)) and time.monotonic() < give_up_s:
        time.sleep(0.05)
    if paths.outcome.exists() or lives:
        return False
    sweep(token, paths.root, made_by_others=(_last_sign_of_life_ns(paths), time.time_ns()))
    return True


def left_unproven(trials: Path) -> list[Path]:
    """Unfinished trials of this boot whose remains may be this account's, but nothing proves it: nobody ends them."""
    return [
        folder
        for folder in _unfinished(trials)
        if _is_of_this_boot(_read(TrialPaths(folder).supervisor))
        and proof_of(_read(TrialPaths(folder).spec).get("token"), folder) is None
    ]


def supervisor_lives(folder: Path) -> bool:
    """As the trial's own files say: enough to refuse something, never to end or remove anything."""
    return _lives(_read(TrialPaths(folder).supervisor))


def _lives(state: Mapping[str, Any]) -> bool:
    pid = state.get("supervisor_pid")
    if not isinstance(pid, int) or not _is_of_this_boot(state):
        return False
    process = process_of(pid)
    return process is not None and process.living and process.started_ticks == state.get("supervisor_started_ticks")


def _is_of_this_boot(state: Mapping[str, Any]) -> bool:
    return bool(boot_id()) and state.get("boot_id") == boot_id()


def _unfinished(trials: Path) -> list[Path]:
    """A link may lead into another study, whose lock is not held."""
    folders = sorted(trials.iterdir()) if trials.is_dir() else []
    return [one for one in folders if not one.is_symlink() and not TrialPaths(one).outcome.exists()]


def _segments_of(
    living: Sequence[Process], known: Mapping[int, int], dead: Sequence[int], proof: Mapping[str, Any]
) -> set[str]:
    if "shm_before" not in proof:  # nothing is known to be new, so nothing is ours
        return set()
    new = shm.segments() - set(proof["shm_before"])
    return shm.claim(new, users=[process.pid for process in living], namesakes={*known, *dead})


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


def _last_sign_of_life_ns(paths: TrialPaths) -> int:
    """Of a trial whose end nobody saw: whoever changed a file long after it was not the trial."""
    told = (
        *paths.step_records(),
        *paths.step_facts(),
        *paths.file_facts(),
        paths.root / KEPT,
        paths.root / KEPT / ".room",
    )
    others = (paths.spec, paths.supervisor, paths.pythons, paths.telemetry, paths.stdout, paths.stderr)
    times = [0]
    for path in (*told, *others):
        with contextlib.suppress(OSError):
            times.append(path.stat().st_mtime_ns)
    return max(times)


def _read(path: Path) -> dict[str, Any]:
    try:
        item = read_json(path)
    except (OSError, ValueError):
        return {}
    return item if isinstance(item, dict) else {}
