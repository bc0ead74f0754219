"""Which trials this account's own vtune started, and which processes, groups, segments and folders belong to them.

A study folder may come from somebody else: nothing in it proves anything. This record is kept apart from it, in a
folder that only this account can write to, and a sweep acts on nothing else. Loaded by the supervisor, like
process_tree.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# More than 10 000 segments of shared memory take.
_MOST_BYTES = 2**20
_TOKEN_LENGTH = 32


def record(token: str, facts: Mapping[str, Any]) -> bool:
    """Replaced as a whole. `facts["folder"]` is the trial's folder; False where no place is private enough to prove it.

    Not synced: a trial's start has no time for it. A power cut within seconds of the start may lose the proof.
    """
    if not _is_token(token):
        return False
    folder = os.path.realpath(facts["folder"])
    text = json.dumps({**facts, "token": token, "folder": folder}).encode()
    for place in _places():
        with contextlib.suppress(OSError):
            os.makedirs(place, 0o700, exist_ok=True)
            with _private(place) as private:
                _replace(private, _name(token), text)
            return True
    return False


def proof_of(token: object, folder: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The facts recorded for this very trial in this very folder, also after a reboot (see `boot_id` in them).

    None for a study of somebody else, and for a folder that was copied or moved.
    """
    if not _is_token(token):
        return None
    found = [(changed, facts) for changed, facts in _read_all(_name(str(token))) if facts.get("token") == token]
    here = os.path.realpath(folder)
    # Where the first place was full for a while, the last record is the true one.
    return max((one for one in found if one[1].get("folder") == here), key=lambda one: one[0], default=(0, None))[1]


def forget(token: object) -> None:
    """Nothing of the trial is left that a sweep would have to end or remove."""
    if not _is_token(token):
        return
    for place in _places():
        with contextlib.suppress(OSError), _private(place) as private:
            os.unlink(_name(str(token)), dir_fd=private)


def recorded() -> list[str]:
    """The folders of all trials of this account that are not forgotten."""
    found: dict[str, None] = {}
    for place in _places():
        with contextlib.suppress(OSError), _private(place) as private:
            for name in sorted(os.listdir(private)):
                if _is_token(name.removesuffix(".json")):
                    found.update((str(facts.get("folder")), None) for _, facts in _read_all(name))
    return list(found)


def private_place() -> str | None:
    """The best folder that nobody else can write to."""
    for place in _places():
        with contextlib.suppress(OSError):
            os.makedirs(place, 0o700, exist_ok=True)
            with _private(place):
                return place
    return None


def _places() -> list[str]:
    """The first one outlives a reboot; the others serve accounts that cannot write to their home."""
    # A relative path there is to be ignored, says the XDG specification.
    named = [os.environ.get(name, "") for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR")]
    state, runtime = (path if os.path.isabs(path) else None for path in named)
    home = os.path.expanduser("~/.local/state")
    places = [os.path.join(state or home, "vtune", "trials")]
    if runtime is not None:
        places.append(os.path.join(runtime, "vtune-trials"))
    places.append(f"/tmp/vtune-trials-{os.geteuid()}")
    return [place for place in places if os.path.isabs(place)]


@contextlib.contextmanager
def _private(place: str) -> Iterator[int]:
    """A descriptor of the folder, so that nobody can exchange it after the check."""
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not _is_ours_alone(os.fstat(descriptor)):
            raise PermissionError(place)
        yield descriptor
    finally:
        os.close(descriptor)


def _is_ours_alone(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077


def _replace(private: int, name: str, text: bytes) -> None:
    beside = f".{name}.{os.getpid()}.tmp"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(beside, flags, 0o600, dir_fd=private)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        os.replace(beside, name, src_dir_fd=private, dst_dir_fd=private)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside, dir_fd=private)
        raise


def _read_all(name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each with the time of its last change."""
    for place in _places():
        with contextlib.suppress(OSError, ValueError), _private(place) as private:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=private)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(file.fileno())
                if stat.S_ISREG(status.st_mode) and _is_ours_alone(status):
                    facts = json.loads(file.read(_MOST_BYTES))
                    if isinstance(facts, dict):
                        yield status.st_mtime_ns, facts


def _is_token(token: object) -> bool:
    """A file name is made of it, and it may come from a study's file."""
    return isinstance(token, str) and len(token) == _TOKEN_LENGTH and not set(token) - set("0123456789abcdef")


def _name(token: str) -> str:
    return f"{token}.json"
