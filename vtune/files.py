"""Writing that a crash cannot tear."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Readers see the old file or the new one, also after a power cut."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        # Line ends as they are: a CSV file has its own.
        with open(beside, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        # A failed write does not say which file it was.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
