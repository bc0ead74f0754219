"""In a full run: how many batches, backwards and steps there were, in one small file that is written over and over.

A run of days must not pay for a record of each; and a full disk, which has no room for one more byte, has for these.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from _vtune_hooks.own_file import OwnFile

VERSION = 1
SIZE = 4096
# Magic, version, slots used, sequence number, when it was written. The sequence number again at the very end.
HEADER = struct.Struct("<8sIIQd")
# Kind, flags, source, nothing, then count, samples, seconds waited, when it was last, and the longest time between two.
SLOT = struct.Struct("<BBHIQQddd")
SEQUENCE = struct.Struct("<Q")
MOST_SLOTS = (SIZE - HEADER.size - SEQUENCE.size) // SLOT.size
# Sources beyond the room that there is are counted together, by kind and flags.
OTHERS = 0xFFFF
_KEPT_FOR_OTHERS = 16
# After a write that failed; a disk that is full for a while must not end the counting of days.
AGAIN_S = 30.0


class Counts:
    """Of one process."""

    def __init__(self, path: str) -> None:
        self._file = OwnFile(path)
        # Kind, flags and source -> count, samples, waited, last, longest gap.
        self._slots: dict[tuple[int, int, int], list[Any]] = {}
        self._sequence = 0
        self._write_again_s = 0.0

    def add(self, records: Iterable[tuple[Any, ...]]) -> None:
        for kind, flags, source, _, _, a, b, _, n1, n2 in records:
            slot = self._slots.get((kind, flags, source)) or self._new((kind, flags, source))
            slot[0] += 1
            slot[1] += n2 or n1
            slot[2] += b - a if a else 0.0
            # Of several threads the later one may have told first.
            if slot[0] > 1:
                slot[4] = max(slot[4], b - slot[3])
            slot[3] = max(slot[3], b)

    def write(self, now: float) -> None:
        if now < self._write_again_s:
            return
        try:
            self._file.write_over(self._text(now))
        except OSError:
            self._write_again_s = now + AGAIN_S

    def forget(self) -> None:
        """In a fork's child, which counts anew."""
        self._file.forget()

    def _new(self, key: tuple[int, int, int]) -> list[Any]:
        if len(self._slots) >= MOST_SLOTS - _KEPT_FOR_OTHERS:
            key = *key[:2], OTHERS
        return self._slots.setdefault(key, [0, 0, 0.0, 0.0, 0.0])

    def _text(self, now: float) -> bytes:
        self._sequence += 1
        slots = [SLOT.pack(kind, flags, source, 0, *slot) for (kind, flags, source), slot in self._slots.items()]
        head = HEADER.pack(b"VTUNECNT", VERSION, len(slots), self._sequence, now)
        return b"".join((head, *slots)).ljust(SIZE - SEQUENCE.size, b"\0") + SEQUENCE.pack(self._sequence)
