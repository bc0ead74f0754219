"""How the files of the user are kept from a trial's writes: decided once, written into each trial's folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from vtune.config.reach import Reach, reach_of_hooks
from vtune.config.written_folders import written_folders
from vtune.domain.experiment import Experiment
from vtune.domain.progress import KeptFromInside
from vtune.errors import MachineError
from vtune.execution.inside_hold import hold_of
from vtune.journal.file_names import PROTECTION
from vtune.journal.files import dump_json
from vtune.journal.paths import StudyPaths, TrialPaths
from vtune.telemetry.disk import existing
from vtune.telemetry.mountinfo import mounts
from vtune.telemetry.proc_text import PROC

# A trial may fill so much of the free space. It is worked out anew for each trial, so twenty of them leave room.
DISK_SHARE = 0.1
# A trial's own records need more than a tenth of a small disk. A full disk is told anyway.
DISK_LEAST_BYTES = 2**30
# The kernel mounts in milliseconds; a dead network mount may hold it for ever.
_CHECK_S = 20.0
# Entries whose owner is looked at. Among more than that a file of another owner may hide.
_MOST_ENTRIES = 200_000
_BOOTSTRAP = "import sys; sys.path.append(sys.argv[1]); from vtune.execution.overlay_check import main; main()"
# A training's own downloads and compiled kernels, which every later run finds again.
_CACHES = ("XDG_CACHE_HOME", "TORCH_HOME", "HF_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH")
_HOME_CACHES = (".cache", ".triton", ".nv")
# Files can be laid over these.
_COVERABLE = frozenset(("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "tmpfs", "xfs", "zfs"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """As written to a trial's protection.json, for its supervisor and for the hooks in the training."""

    by: Literal["overlay", "inside", "none"]
    folders: tuple[str, ...]
    # Mounts below the folders that stay as they are.
    bound: tuple[str, ...] = ()
    # Writes below these are real.
    open: tuple[str, ...] = ()
    # In a user namespace, where vtune is not root.
    as_user: bool = False
    disk_bytes: int | None = None
    # From inside: the file that keeps other studies out of the folders, which the supervisor holds, too.
    hold: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """Whether overlays can be had here."""

    as_user: bool
    # Folder → why it cannot be covered; empty where all can.
    refused: dict[str, str]


def protect_trial(experiment: Experiment, study: StudyPaths, folder: TrialPaths) -> Protection:
    """Writes the trial's protection.json."""
    protection = protection_of(experiment, study, folder)
    dump_json(folder.protection, protection)
    return protection


def check_protection(experiment: Experiment, study: StudyPaths) -> KeptFromInside | None:
    """Before the first trial starts. Raises where the user's files can be kept in neither way."""
    if experiment.writes.real:
        return None
    folders = folders_written(experiment)
    cwd = os.path.realpath(experiment.workload.cwd)
    if not _is_below(cwd, folders) and os.access(cwd, os.W_OK):
        raise MachineError(
            f"a trial may overwrite files in {cwd}, which vtune cannot protect as a working folder",
            hint="start vtune in the folder of the training, or let trials write for real: --allow-writes",
        )
    refused = overlays_here(folders, str(existing(study.root))).refused
    if not refused:
        return None
    because = next(iter(refused.values()))
    if reach_of_hooks(experiment.workload.command) is Reach.REACHED:
        return KeptFromInside(folders=folders, because=because)
    raise MachineError(
        f"a trial may overwrite files in {', '.join(folders)}: this machine allows no overlay there ({because}), and"
        f" vtune cannot keep files from inside {experiment.workload.command[0]}, which may not be Python",
        hint="copy the files that must not change, and add --allow-writes; or name the Python command itself,"
        " for example: vtune probe -- python train.py",
    )


def folders_written(experiment: Experiment) -> tuple[str, ...]:
    return tuple(map(str, written_folders(experiment.workload, experiment.writes.protect)))


def protection_of(experiment: Experiment, study: StudyPaths, folder: TrialPaths) -> Protection:
    writes = experiment.writes
    disk_bytes = trial_disk_bytes(experiment, study.root)
    if writes.real:
        return Protection(by="none", folders=(), disk_bytes=disk_bytes)
    folders = folders_written(experiment)
    covered = overlays_here(folders, str(existing(study.root))) if folders else Covered(as_user=True, refused={})
    layers, bound = _nested(folders)
    open_ = _open_places(study, folder, folders)
    if covered.refused:
        return Protection(by="inside", folders=folders, open=open_, disk_bytes=disk_bytes, hold=hold_of(study))
    bound = tuple(path for path in bound if not _is_below(path, open_))
    return Protection(
        by="overlay", folders=layers, bound=bound, open=open_, as_user=covered.as_user, disk_bytes=disk_bytes
    )


@cache
def overlays_here(folders: tuple[str, ...], results: str) -> Covered:
    """Tried once, by a process of its own: mounted, and written to."""
    refused: dict[str, str] = {}
    for as_user in (False, True) if os.geteuid() == 0 else (True,):
        others = {path: why for path in folders if as_user and (why := _foreign(path)) is not None}
        if others:
            refused = others
            continue
        layers, bound = _nested(folders)
        with _place_for_check(results) as place:
            asked = Protection(by="overlay", folders=layers, bound=bound, open=(place,), as_user=as_user)
            refused = _tried(asked, place)
        if not refused:
            return Covered(as_user=as_user, refused={})
    return Covered(as_user=True, refused=refused)


@contextmanager
def _place_for_check(results: str) -> Iterator[str]:
    try:
        place = tempfile.TemporaryDirectory(dir=results, prefix=".vtune-check-")
    except OSError as error:
        # The folder that refuses it, and not a name that nobody knows.
        raise OSError(error.errno, error.strerror, results) from error
    with place as path:
        yield path


def _tried(protection: Protection, place: str) -> dict[str, str]:
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-I", "-S", f"-Xutf8={sys.flags.utf8_mode}", "-c", _BOOTSTRAP, root, place]
    Path(place, PROTECTION).write_text(json.dumps(asdict(protection)), encoding="utf-8")
    try:
        answer = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_CHECK_S,
            check=False,
            start_new_session=True,
        )
        return dict(json.loads(answer.stdout))
    except subprocess.TimeoutExpired:
        return dict.fromkeys(protection.folders, f"no answer within {_CHECK_S:g} s")
    except (OSError, ValueError) as error:
        return dict.fromkeys(protection.folders, str(error))


def _foreign(folder: str) -> str | None:
    """A user namespace knows one user and one group. A file of another one that may be written cannot be copied."""
    uid, gid = os.geteuid(), os.getegid()
    waiting, seen = [folder], 0
    while waiting and seen < _MOST_ENTRIES:
        path = waiting.pop()
        try:
            status = os.lstat(path)
            if (status.st_uid, status.st_gid) != (uid, gid) and os.access(path, os.W_OK, follow_symlinks=False):
                return f"{path} is of another owner or group"
            for entry in os.scandir(path):
                seen += 1
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                    continue
                status = entry.stat(follow_symlinks=False)
                if (status.st_uid, status.st_gid) != (uid, gid) and os.access(entry.path, os.W_OK):
                    return f"{entry.path} is of another owner or group"
        except OSError:
            continue
    return None


def _nested(folders: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The folders with the mounts below them that can be covered, too, and those that stay as they are."""
    below = {mount.top: mount for mount in mounts(PROC) if _is_below(mount.top, folders) and mount.top not in folders}
    layers = [
        top
        for top, mount in below.items()
        if mount.filesystem in _COVERABLE and "ro" not in mount.options and os.path.isdir(top)
    ]
    return (*folders, *layers), tuple(top for top in below if top not in layers and os.path.isdir(top))


def _open_places(study: StudyPaths, folder: TrialPaths, folders: Sequence[str]) -> tuple[str, ...]:
    study.compile_cache.mkdir(parents=True, exist_ok=True)
    set_ = [Path(os.environ[name]) for name in _CACHES if os.environ.get(name)]
    caches = [
        *(Path.home() / name for name in _HOME_CACHES),
        *set_,
    ]
    places = (folder.root, study.compile_cache, *caches)
    real = dict.fromkeys(os.path.realpath(place) for place in places if place.is_dir())
    return tuple(place for place in real if _is_below(place, folders) and place not in folders)


def trial_disk_bytes(experiment: Experiment, study: Path) -> int | None:
    try:
        free = shutil.disk_usage(existing(study)).free
    except OSError:
        return None
    limit = experiment.writes.disk
    return max(int(DISK_SHARE * free), DISK_LEAST_BYTES) if limit is None else limit.resolve(free)


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)
