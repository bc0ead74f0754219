"""A temporary folder of the trial's own, so that nothing of what it leaves there stays.

Loaded by the supervisor, like process_tree.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence

PREFIX = "vt-"
_RANDOM_BYTES = 4
# Of a socket's path at most, its final NUL apart; a training that fits in with its own TMPDIR shall do so with ours.
_SOCKET_PATH = 107
_BELOW = len("/torch-shm-dir-XXXXXX/manager.sock")  # multiprocessing's are two bytes shorter


def make_tmpdir(note: Callable[[str], None] = lambda path: None) -> str:
    """`note` hears of its path before it is made: whoever is killed in between has told it."""
    # As tempfile.gettempdir() would find it; its import costs half of the supervisor's start.
    named = [os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
    error: OSError | None = None
    for parent in roomiest_first([*named, "/tmp", "/var/tmp", "/usr/tmp", os.getcwd()]):
        path = os.path.join(os.path.abspath(parent), PREFIX + os.urandom(_RANDOM_BYTES).hex())
        note(path)
        try:
            os.mkdir(path, 0o700)
            return path
        except OSError as this:
            error = this
    raise error or AssertionError


def roomiest_first(parents: Sequence[str]) -> list[str]:
    """In their order, but last of all those below which the path of a socket would become too long."""
    most = _SOCKET_PATH - _BELOW - len("/" + PREFIX) - 2 * _RANDOM_BYTES
    return sorted(parents, key=lambda parent: len(os.fsencode(os.path.abspath(parent))) > most)


def remove_tmpdir(path: str) -> None:
    if os.path.basename(path).startswith(PREFIX) and _is_our_folder(path):
        import shutil  # here: its import would delay the start of every trial

        shutil.rmtree(path, ignore_errors=True)


def _is_our_folder(path: str) -> bool:
    """Never a link to one, nor another account's."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
