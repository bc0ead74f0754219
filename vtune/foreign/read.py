"""The bytes of a file that may be none: a FIFO, a device, a folder, larger than memory."""

from __future__ import annotations

import os
import stat
from typing import Any

from vtune.foreign.bounds import BadText
from vtune.foreign.json_text import parse_json

# Small files of a study: a spec, an outcome, a choice. The largest seen has some 100 KiB.
MOST_BYTES = 16 * 1024 * 1024

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: str | os.PathLike[str]) -> int:
    """A descriptor of a regular file, opened for reading. Never waits: to open a FIFO would."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = _KINDS.get(stat.S_IFMT(mode), "no regular file")
        raise BadText(f"is {kind}, not a file", hint="name a regular file that can be read more than once")
    return descriptor


def read_bytes(path: str | os.PathLike[str], *, most: int | None = MOST_BYTES) -> bytes:
    """Raises OSError and BadText. `most` is None for a file that grows with the study, such as a journal."""
    with os.fdopen(open_regular(path), "rb") as file:
        raw = file.read(-1 if most is None else most + 1)
    if most is not None and len(raw) > most:
        size = f"{most // 1024**2} MiB" if most >= 1024**2 else f"{most // 1024} KiB"
        raise BadText(f"is larger than {size}", hint="name the file that was meant: data and checkpoints are larger")
    return raw


def read_text(path: str | os.PathLike[str], *, most: int = MOST_BYTES) -> str:
    """UTF-8 without its mark."""
    return decoded(read_bytes(path, most=most))


def decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8-sig", "replace").split("\n")
        raise BadText(
            f"not a text file in UTF-8 (byte 0x{raw[error.start]:02x})",
            hint="save it as UTF-8",
            line=len(before),
            column=len(before[-1]) + 1,
        ) from None


def read_json(path: str | os.PathLike[str]) -> Any:
    return parse_json(read_text(path))
