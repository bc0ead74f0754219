"""Files and folders that are whole or absent, whenever their writer is killed."""

import contextlib
import os
import platform
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

# Of this machine, for elsewhere a process with the same number says nothing; the last part is the process.
ENDING = re.compile(rf"\..+\.{re.escape(platform.node())}-(\d+)\.partial")


@contextlib.contextmanager
def whole_or_absent(path: Path) -> Iterator[Path]:
    """Where to write a file or a folder; it gets the name of `path`, and replaces what had it, when all went well.

    The name is hidden until then, so that no listing of volumes finds half of one, and this process's own: of two that
    write the same, the last one's is there, and whole. What a killed one left is cleared away.
    """
    partial = partial_of(path, os.getpid())
    try:
        clear_partials(path.parent)
        _remove(partial)
        yield partial
        _to_disk(partial)
        _rename(partial, path)
    finally:
        # Also where it is a second name of what `path` already was: a rename leaves both.
        with contextlib.suppress(OSError):
            _remove(partial)


def partial_of(path: Path, process: int) -> Path:
    return path.with_name(f".{path.name}.{platform.node()}-{process}.partial")


def clear_partials(folder: Path) -> None:
    for name in os.listdir(folder):
        match = ENDING.fullmatch(name)
        if match and not os.path.exists(f"/proc/{match[1]}"):
            with contextlib.suppress(OSError):
                _remove(folder / name)


def _to_disk(path: Path) -> None:
    """What is renamed before it is on the disk may be empty after a power cut."""
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _rename(partial: Path, path: Path) -> None:
    # A folder can only be renamed to a name that is free.
    if path.is_dir():
        old = path.with_name(f".{path.name}.old")
        _remove(old)
        path.rename(old)
        partial.rename(path)
        _remove(old)
    else:
        partial.replace(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
