"""The overlay of a trial: the training sees its own files, and each change lands in the trial's folder.

Loaded by the supervisor, like process_tree. `protection.json` in the trial's folder says which folders are covered:

    {"by": "overlay", "as_user": false, "disk_bytes": 8589934592,
     "folders": ["/home/a/ct"], "bound": ["/home/a/ct/mnt"], "open": ["/home/a/ct/results/x/trials/0001"]}

`folders` get an overlay each. `bound` are mounts below them that stay as they are. Writes below `open` are real.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import stat

from vtune.journal.file_names import PROTECTION, WRITTEN, WRITTEN_LIST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

# Upper and work folders while the trial runs: `.overlay/0/upper`. They have to be on one file system.
_LAYERS = ".overlay"
# linux/sched.h and linux/mount.h
_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000
# The kernel marks a folder whose lower one is hidden, and one that was renamed, in these attributes.
_OPAQUE, _REDIRECT = ("trusted.overlay.opaque", "user.overlay.opaque"), "trusted.overlay.redirect"
# No training's work, and nobody misses them: they are neither listed nor kept.
NOT_LISTED = ("__pycache__",)


def read_protection(folder: str) -> dict[str, Any]:
    """Empty for a full run, which writes for real."""
    try:
        with open(os.path.join(folder, PROTECTION), encoding="utf-8") as file:
            protection = json.load(file)
    except (OSError, ValueError):
        return {}
    return protection if isinstance(protection, dict) else {}


# --- around the training, before it starts ---


def enter(protection: Mapping[str, Any], folder: str) -> None:
    """Moves this process into a mount namespace of its own in which the folders are covered.

    Raises OSError with the path that could not be covered. The process must not go on then."""
    libc = ctypes.CDLL(None, use_errno=True)
    covered, open_ = list(protection["folders"]), list(protection["open"])
    layers = {path: _make_layer(folder, number, path) for number, path in enumerate(covered)}
    _unshare(libc, as_user=protection["as_user"])
    # What others mount later is still seen here; nothing of here is seen outside.
    _mount(libc, None, "/", _MS_REC | _MS_SLAVE)
    # All are opened before the first is covered, since an overlay hides the mounts below it.
    held = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in (*covered, *protection["bound"], *open_)}
    homes = {path: os.open(layer, os.O_PATH | os.O_CLOEXEC) for path, layer in layers.items()}
    more = ",userxattr" if protection["as_user"] else ",redirect_dir=on"
    # An outer folder before what lies in it.
    for path in (*sorted((*covered, *protection["bound"]), key=len), *sorted(open_, key=len)):
        if path in layers and path not in open_:
            # By number: a path may hold commas and colons, which separate options.
            home = f"/proc/self/fd/{homes[path]}"
            options = f"lowerdir=/proc/self/fd/{held[path]},upperdir={home}/upper,workdir={home}/work{more}"
            _mount(libc, "overlay", path, 0, kind=b"overlay", options=options.encode())
        else:
            _mount(libc, f"/proc/self/fd/{held[path]}", path, _MS_BIND | _MS_REC)
    for descriptor in (*held.values(), *homes.values()):
        os.close(descriptor)


def _make_layer(folder: str, number: int, path: str) -> str:
    layer = os.path.join(os.path.realpath(folder), _LAYERS, str(number))
    upper = os.path.join(layer, "upper")
    os.makedirs(upper, mode=0o700)
    os.mkdir(os.path.join(layer, "work"), 0o700)
    # The covered folder shows the owner and mode of its upper one.
    below = os.stat(path)
    if os.geteuid() == 0:
        os.chown(upper, below.st_uid, below.st_gid)
    os.chmod(upper, stat.S_IMODE(below.st_mode))
    return layer


def _unshare(libc: ctypes.CDLL, *, as_user: bool) -> None:
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(_CLONE_NEWNS | (_CLONE_NEWUSER if as_user else 0)) != 0:
        number = ctypes.get_errno()
        # ENOSPC means that no more namespaces are allowed, not that a disk is full.
        why = "no user namespace is allowed here" if number == errno.ENOSPC else os.strerror(number)
        raise OSError(number, why, "mount namespace")
    if not as_user:
        return
    # Each to itself: the training sees the numbers that it has without vtune, and it gains no rights by them.
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _mount(
    libc: ctypes.CDLL, source: str | None, target: str, flags: int, *, kind: bytes | None = None, options: bytes = b""
) -> None:
    named = None if source is None else os.fsencode(source)
    if libc.mount(named, os.fsencode(target), kind, ctypes.c_ulong(flags), options or None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


# --- while it runs ---


def disk_used(folder: str) -> int:
    """The space that everything in the trial's folder takes."""
    return sum(status.st_blocks * 512 for status in files_below(folder))


def files_below(folder: str) -> Iterator[os.stat_result]:
    for entry in _entries_below(folder):
        with contextlib.suppress(OSError):
            yield entry.stat(follow_symlinks=False)


# --- after its end ---


def finish(folder: str) -> None:
    """Lists the changes in `written.json`, and moves the files of the layers to `written/<their path>`.

    Whoever is killed in here is followed by a sweep, which does the rest."""
    layers = os.path.join(folder, _LAYERS)
    if not os.path.isdir(layers) or os.path.islink(layers):
        return
    found, protection = _read_list(folder), read_protection(folder)
    most = protection.get("disk_bytes")
    is_over = most is not None and disk_used(folder) > most
    for number, path in enumerate(protection.get("folders", ())):
        layer = os.path.join(layers, str(number))
        upper = os.path.join(layer, "upper")
        if os.path.isdir(upper) and not os.path.islink(upper):
            changes = _Changes(path, upper, found)
            changes.look(upper, path)
            _write_list(folder, found)
            changes.drop_marks()
            if is_over:
                changes.drop_copies()
            _keep(upper, os.path.join(folder, WRITTEN, path.lstrip("/")))
        _remove(layer)
    _write_list(folder, found)
    _remove(layers)


class _Changes:
    """What stands in an upper folder, compared with the folder below it."""

    def __init__(self, top: str, upper: str, found: dict[str, dict[str, None]]) -> None:
        self._top, self._upper, self._found = top, upper, found
        # Nodes by which the kernel hides a file: they mean nothing outside an overlay.
        self._marks: list[str] = []
        # Files of the user's that the kernel copied when they were opened for writing.
        self._copies: list[str] = []
        self._waiting: list[tuple[str, str | None]] = []

    def look(self, upper: str, lower: str | None) -> None:
        """Without a call for each level: a training may nest folders deeper than Python nests calls."""
        self._waiting.append((upper, lower))
        while self._waiting:
            self._look_at(*self._waiting.pop())

    def _look_at(self, upper: str, lower: str | None) -> None:
        hides = lower is not None and any(_attribute(upper, name) for name in _OPAQUE)
        names = set()
        for entry in _scan(upper):
            names.add(entry.name)
            below = None if lower is None else os.path.join(lower, entry.name)
            status = entry.stat(follow_symlinks=False)
            if entry.name in NOT_LISTED:
                self._marks.append(entry.path)
            elif stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
                self._marks.append(entry.path)
                if below is not None and os.path.lexists(below):
                    self._note("removed", below)
            elif entry.is_dir(follow_symlinks=False):
                self._look_into(entry.path, below if below and _is_folder(below) else None)
            else:
                self._compare(entry.path, status, below)
        if hides and lower is not None:
            for name in sorted({entry.name for entry in _scan(lower)} - names):
                self._note("removed", os.path.join(lower, name))

    def _look_into(self, path: str, below: str | None) -> None:
        # A folder that was renamed holds the files below it without a copy: it is listed as one.
        if below is None or _attribute(path, _REDIRECT):
            self._note("new", self._real(path) + "/")
            below = None
        self._waiting.append((path, below))

    def _compare(self, path: str, status: os.stat_result, below: str | None) -> None:
        try:
            old = None if below is None else os.lstat(below)
        except OSError:
            old = None
        if old is None:
            self._note("new", self._real(path))
            return
        self._copies.append(path)
        # Opened for writing and left alone, a file is copied all the same, with its time.
        if (old.st_size, old.st_mtime_ns, old.st_mode) != (status.st_size, status.st_mtime_ns, status.st_mode):
            self._note("changed", self._real(path))

    def _real(self, path: str) -> str:
        return os.path.join(self._top, os.path.relpath(path, self._upper))

    def _note(self, kind: str, path: str) -> None:
        self._found[kind][path] = None

    def drop_marks(self) -> None:
        for path in self._marks:
            _remove(path)

    def drop_copies(self) -> None:
        """The user has these files, and a trial over its disk space must not keep them as well."""
        for path in self._copies:
            _remove(path)


def _read_list(folder: str) -> dict[str, dict[str, None]]:
    """Mappings, since each name of very many is looked for."""
    try:
        with open(os.path.join(folder, WRITTEN_LIST), encoding="utf-8") as file:
            known = json.load(file)
        return {kind: dict.fromkeys(map(str, known[kind])) for kind in ("changed", "new", "removed")}
    except (OSError, ValueError, KeyError, TypeError):
        return {"changed": {}, "new": {}, "removed": {}}


def _write_list(folder: str, found: Mapping[str, Mapping[str, None]]) -> None:
    path = os.path.join(folder, WRITTEN_LIST)
    with open(path + ".tmp", "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump({kind: list(paths) for kind, paths in found.items()}, file)
    os.replace(path + ".tmp", path)


def _keep(upper: str, target: str) -> None:
    if not os.listdir(upper):
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    # A folder inside another that was kept already: its files join those.
    if os.path.isdir(target):
        for entry in _scan(upper):
            with contextlib.suppress(OSError):
                os.rename(entry.path, os.path.join(target, entry.name))
    else:
        os.chmod(upper, 0o700)
        os.rename(upper, target)


def _remove(path: str) -> None:
    """All of it, also folders that the kernel or the training made unreadable. Links are removed, not followed."""
    waiting, folders = [path], list[str]()
    while waiting:
        path = waiting.pop()
        if _is_folder(path):
            with contextlib.suppress(OSError):
                os.chmod(path, 0o700)
            folders.append(path)
            waiting += (entry.path for entry in _scan(path))
        else:
            with contextlib.suppress(OSError):
                os.unlink(path)
    for path in reversed(folders):
        with contextlib.suppress(OSError):
            os.rmdir(path)


def _entries_below(folder: str) -> Iterator[os.DirEntry[str]]:
    waiting = [folder]
    while waiting:
        for entry in _scan(waiting.pop()):
            yield entry
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)


def _scan(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # removed meanwhile, or not ours to read
        return []


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _attribute(path: str, name: str) -> bool:
    try:
        return bool(os.getxattr(path, name, follow_symlinks=False))
    except OSError:
        return False


# --- before the first trial ---


def failures(protection: Mapping[str, Any], folder: str) -> dict[str, str]:
    """Which folders cannot be covered here, and why; empty where all can. Enters: the process is of no more use."""
    try:
        enter(protection, folder)
    except OSError as error:
        return {str(error.filename): error.strerror or str(error)}
    found = {}
    for path in protection["folders"]:
        try:
            _write_once(path)
        except OSError as error:
            found[path] = error.strerror or str(error)
    return found


def _write_once(folder: str) -> None:
    """One write, since a file of an owner without a number in the namespace cannot be copied (EOVERFLOW)."""
    # A folder that the training cannot write itself needs no proof.
    if not os.access(folder, os.W_OK):
        return
    path = os.path.join(folder, f".vtune-{os.urandom(4).hex()}")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    os.unlink(path)
