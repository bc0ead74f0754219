"""How fast a folder's file system really is: a bounded write and read that the page cache cannot answer."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from vtune.telemetry.mountinfo import mounts
from vtune.telemetry.proc_text import PROC

BYTES = 256 * 2**20
CHUNK = 4 * 2**20
# For writing and again for reading: a slow mount is measured on less, and nobody waits for it.
SECONDS = 0.9
# A nearly full disk is left alone.
LEAST_FREE = 4 * BYTES
IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    # ext4, overlay, nfs4, fuse.s3fs …; None where it is not known.
    filesystem: str | None
    free_bytes: int | None
    write_bytes_per_s: float | None = None
    read_bytes_per_s: float | None = None
    tried_bytes: int = 0
    # direct: past the page cache. evicted: read after it was dropped from there. cached: neither was possible.
    way: str | None = None
    # Why there is no speed.
    why_unknown: str | None = None


def scratch(folder: Path, proc: Path = PROC, *, most_bytes: int = BYTES, seconds: float = SECONDS) -> Scratch:
    """The file has no name, so that no way of ending leaves it behind."""
    where = nearest_existing(folder)
    filesystem, free = filesystem_of(where, proc), free_bytes(where)
    if free is not None and free < LEAST_FREE:
        return Scratch(filesystem=filesystem, free_bytes=free, why_unknown="not tried: the disk is nearly full")
    try:
        with tempfile.TemporaryFile(dir=where, buffering=0) as file:
            way = "direct" if _go_direct(file.fileno()) else "evicted"
            with mmap.mmap(-1, CHUNK) as block:  # page-aligned, as direct reading and writing wants it
                block.write(os.urandom(CHUNK))
                written, write_s = _write(file.fileno(), block, most_bytes, seconds)
                if way == "evicted":
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                if filesystem in IN_MEMORY:
                    way = "cached"
                read, read_s = _read(file.fileno(), block, written, seconds)
    except OSError as error:
        return Scratch(filesystem=filesystem, free_bytes=free, why_unknown=f"cannot write there: {error.strerror}")
    return Scratch(
        filesystem=filesystem,
        free_bytes=free,
        write_bytes_per_s=written / write_s if written else None,
        read_bytes_per_s=read / read_s if read else None,
        tried_bytes=written,
        way=way,
    )


def nearest_existing(folder: Path) -> Path:
    path = folder.absolute()
    while not os.path.isdir(path) and path != path.parent:
        path = path.parent
    return path


def filesystem_of(folder: Path, proc: Path = PROC) -> str | None:
    """Of the innermost mount around the folder; the last one mounted there hides the others."""
    found, depth = None, -1
    place = folder.resolve()
    for mount in mounts(proc):
        top = Path(mount.top)
        if place.is_relative_to(top) and len(top.parts) >= depth:
            found, depth = mount.filesystem, len(top.parts)
    return found


def free_bytes(folder: Path) -> int | None:
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def _go_direct(descriptor: int) -> bool:
    direct = getattr(os, "O_DIRECT", 0)
    with contextlib.suppress(OSError):  # tmpfs and many network mounts refuse it
        _set_flags(descriptor, add=direct)
        return bool(direct)
    return False


def _set_flags(descriptor: int, *, add: int = 0, remove: int = 0) -> None:
    import fcntl  # there is none on Windows, where reports can be read all the same

    fcntl.fcntl(descriptor, fcntl.F_SETFL, (fcntl.fcntl(descriptor, fcntl.F_GETFL) | add) & ~remove)


def _write(descriptor: int, block: mmap.mmap, most_bytes: int, seconds: float) -> tuple[int, float]:
    begun = time.monotonic()
    written = 0
    while written < most_bytes and time.monotonic() - begun < seconds:
        try:
            written += os.write(descriptor, block)
        except OSError as error:
            if error.errno == errno.EINVAL and written == 0:  # agreed to write directly, and then did not
                _set_flags(descriptor, remove=os.O_DIRECT)
                continue
            raise
    os.fdatasync(descriptor)
    return written, max(1e-9, time.monotonic() - begun)


def _read(descriptor: int, block: mmap.mmap, available: int, seconds: float) -> tuple[int, float]:
    begun = time.monotonic()
    read = 0
    while read < available and time.monotonic() - begun < seconds:
        count = os.preadv(descriptor, [block], read)
        if count == 0:
            break
        read += count
    return read, max(1e-9, time.monotonic() - begun)
