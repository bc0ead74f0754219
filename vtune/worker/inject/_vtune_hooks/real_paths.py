"""The file that a name stands for, without its links: as the kernel resolves it at this moment."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# As many as the kernel follows.
MOST_LINKS = 40
# No name or no folder of that kind: the operation fails as well.
_FAILS = (FileNotFoundError, NotADirectoryError, PermissionError)

# Taken before a training can exchange them.
_open, _close, _readlink, _getcwd, _listdir = os.open, os.close, os.readlink, os.getcwd, os.listdir
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


def real_path(name: Any, dir_fd: int = -1, *, follow: bool) -> str | None:
    """`follow`: also where the last part is a link. None where the operation cannot succeed."""
    if isinstance(name, int):
        return of_descriptor(name)
    text = os.fsdecode(name)
    if "\0" in text or not text:
        return None
    for _ in range(MOST_LINKS):
        head, tail = os.path.split(text.rstrip("/"))
        if tail in ("", ".", ".."):
            return real_folder(text, dir_fd)
        folder = real_folder(head, dir_fd)
        if folder is None:
            return None
        real = f"{folder.rstrip('/')}/{tail}"
        if not follow:
            return real
        try:
            text, dir_fd = os.path.join(folder, _readlink(real)), -1
        except OSError:
            return real
    return None


def real_folder(path: str, dir_fd: int = -1) -> str | None:
    try:
        if not path and dir_fd < 0:
            return _getcwd()
        descriptor = _open(path or ".", _FOLDER, dir_fd=dir_fd if dir_fd >= 0 else None)
    except _FAILS:
        return None
    except OSError:  # no free descriptor, perhaps: renaming needs none
        below = of_descriptor(dir_fd) if dir_fd >= 0 else _getcwd()
        return None if below is None else os.path.realpath(os.path.join(below, path))
    try:
        return of_descriptor(descriptor)
    finally:
        _close(descriptor)


def of_descriptor(descriptor: int) -> str | None:
    try:
        path = _readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return None
    return path if path.startswith("/") else None


def in_any_open_folder(name: Any) -> list[str]:
    """The files that a relative name may stand for, where nobody tells from which open folder it counts."""
    try:
        numbers = [int(number) for number in _listdir("/proc/self/fd")]
    except OSError:
        numbers = []
    found: list[str] = []
    for dir_fd in (-1, *numbers):
        if dir_fd < 0 or _is_folder(dir_fd):
            real = real_path(name, dir_fd, follow=True)
            if real is not None and real not in found:
                found.append(real)
    return found


def _is_folder(descriptor: int) -> bool:
    path = of_descriptor(descriptor)
    return path is not None and os.path.isdir(path)
