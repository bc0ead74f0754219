"""Files and folders that are whole or absent, whenever their writer is killed."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from vtune.pipelines.unet3d.data.volumes import DataError, words


@contextlib.contextmanager
def whole_or_absent(path: Path, *, by_many: bool = False) -> Iterator[Path]:
    """Where to write a file or a folder; it gets the name of `path`, and replaces what had it, when all went well.

    The name is hidden until then, so that no listing of volumes finds half of one. It is the same each time, so that
    the next attempt clears away what a killed one left; unless many processes write the same at once.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial" if by_many else f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove(partial)
        yield partial
        _to_disk(partial)
        _rename(partial, path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {words(error)}") from error
    finally:
        with contextlib.suppress(OSError):
            _remove(partial)


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
