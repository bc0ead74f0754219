"""Which loader is this? A name that holds across runs: where it was made, for which data set, and which of twins."""

from __future__ import annotations

import os
import sys
import weakref
import zlib
from dataclasses import dataclass
from types import FrameType
from typing import Any

from _vtune_hooks.frames import UNSEEN

# Deeper stacks are recursion: their outer part says nothing about the loader.
MOST_FRAMES = 80

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_RUNNERS = tuple(os.path.join(os.path.dirname(os.__file__), name) for name in ("runpy.py", "importlib" + os.sep))


@dataclass(frozen=True)
class Place:
    """Where a loader was made."""

    file: str
    line: int
    stack_hash: str

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


def place_of_caller(frame: FrameType | None) -> Place:
    """The stack outside torch, from `frame` outwards."""
    hash_so_far = 0
    first: tuple[str, int] | None = None
    torch_folder = _torch_folder()
    for _ in range(MOST_FRAMES):
        if frame is None:
            break
        file = frame.f_code.co_filename
        if not _is_outside(file, torch_folder):
            line = frame.f_lineno
            if first is None:
                first = (file, line)
            hash_so_far = zlib.crc32(f"{_tail(file, frame)}:{line}\n".encode("utf-8", "replace"), hash_so_far)
        frame = frame.f_back
    file, line = first or ("?", 0)
    return Place(file=file, line=line, stack_hash=f"{hash_so_far:08x}")


def _is_outside(file: str, torch_folder: str) -> bool:
    return file.startswith((torch_folder, _OURS, "<frozen ")) or file == UNSEEN or file.startswith(_RUNNERS)


def _torch_folder() -> str:
    file = getattr(sys.modules.get("torch"), "__file__", None)
    return os.path.dirname(file) + os.sep if file else "<frozen "


def _tail(file: str, frame: FrameType) -> str:
    """Enough of the path to tell files apart, little enough to be the same from another folder."""
    name = os.path.basename(file)
    # `python train.py`, `python path/train.py` and a spawned child name the main script differently.
    if frame.f_globals.get("__name__") in ("__main__", "__mp_main__"):
        return name
    parts = file.replace("\\", "/").split("/")
    return "/".join(parts[-3:])


class Keys:
    """Gives out keys. The ordinal tells twins apart: made at one place before the first of them gave a batch."""

    def __init__(self) -> None:
        # By place and ordinal, the loader and its iterators that have given nothing yet. An iterator outlives a loader
        # that nobody else holds: `iter(DataLoader(...))`.
        self._waiting: dict[str, dict[int, list[weakref.ref[Any]]]] = {}

    def give(self, loader: object, dataset: object, place: Place) -> str:
        name = f"{os.path.basename(place.file)}:{place.line}:{type(dataset).__name__}"
        base = f"{name}@{place.stack_hash}"
        waiting = self._waiting.setdefault(base, {})
        for ordinal in [n for n, alive in waiting.items() if not _is_alive(alive) or _holds(alive, loader)]:
            del waiting[ordinal]
        ordinal = next(number for number in range(len(waiting) + 1) if number not in waiting)
        waiting[ordinal] = [weakref.ref(loader)]
        return f"{name}#{ordinal}@{place.stack_hash}"

    def iterated(self, loader: object, iterator: object) -> None:
        for alive in self._of(loader):
            alive.append(weakref.ref(iterator))

    def gave(self, iterator: object) -> None:
        """A batch, or its end: from now on another loader made at the same place is the same loader made anew."""
        for waiting in self._waiting.values():
            for ordinal in [ordinal for ordinal, alive in waiting.items() if _holds(alive, iterator)]:
                del waiting[ordinal]

    def _of(self, loader: object) -> list[list[weakref.ref[Any]]]:
        return [alive for waiting in self._waiting.values() for alive in waiting.values() if _holds(alive, loader)]


def _holds(alive: list[weakref.ref[Any]], thing: object) -> bool:
    return any(one() is thing for one in alive)


def _is_alive(alive: list[weakref.ref[Any]]) -> bool:
    return any(one() is not None for one in alive)
