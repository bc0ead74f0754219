"""One training in an output folder at a time: two would write into each other's metrics and checkpoints."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


class InUse(Exception):
    """Another training writes there; one sentence."""


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Until the end of this process, however it ends. A folder that cannot be made or locked is others' to report."""
    file = None
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / ".training.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    if file is None:
        yield
        return
    try:
        # The process's own and not the open file's, which forked workers share for some seconds longer than it lives.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.truncate(file, 0)
        os.write(file, str(os.getpid()).encode())
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            holder = os.read(file, 20).decode(errors="replace")
            os.close(file)
            raise InUse(f"{folder} is in use by the training with process id {holder}") from None
    try:
        yield
    finally:
        os.close(file)
