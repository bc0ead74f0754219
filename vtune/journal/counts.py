"""Reading the counters that a full run's processes write over and over (docs/decisions/0015)."""

from __future__ import annotations

import re
import struct
import time
from pathlib import Path

from vtune.domain.counts import Counted, CountedKind, ProcessCounts
from vtune.journal.paths import TrialPaths

MAGIC = b"VTUNECNT"
VERSION = 1
SIZE = 4096
HEADER = struct.Struct("<8sIIQd")
SLOT = struct.Struct("<BBHIQQddd")
SEQUENCE = struct.Struct("<Q")
OTHERS = 0xFFFF
# A write takes microseconds, and the next one is a second away.
_TRIES, _PAUSE_S = 5, 0.002
_KINDS: dict[int, CountedKind] = {2: "delivered", 3: "backward", 4: "step", 8: "saved", 9: "pass"}


def read_counts(folder: TrialPaths) -> list[ProcessCounts]:
    """Of each process that has counted something, and whose file can be read just now."""
    return [counts for path in folder.counts() if (counts := read_counts_of(path)) is not None]


def read_counts_of(path: Path) -> ProcessCounts | None:
    found = re.fullmatch(r"counts-(\d+)\.bin", path.name)
    text = _whole(path)
    if found is None or text is None:
        return None
    magic, version, used, _, written_s = HEADER.unpack_from(text)
    if magic != MAGIC or version != VERSION or used > (SIZE - HEADER.size - SEQUENCE.size) // SLOT.size:
        return None
    slots = SLOT.iter_unpack(text[HEADER.size : HEADER.size + used * SLOT.size])
    counted = tuple(
        Counted(
            kind=_KINDS[kind],
            source=None if source == OTHERS else source,
            main_thread=bool(flags & 1),
            nested=bool(flags & 2),
            grad=bool(flags & 4),
            count=count,
            samples=samples,
            waited_s=waited_s,
            last_s=last_s,
            longest_gap_s=longest_gap_s,
        )
        for kind, flags, source, _, count, samples, waited_s, last_s, longest_gap_s in slots
        if kind in _KINDS
    )
    return ProcessCounts(pid=int(found[1]), written_s=written_s, counted=counted)


def _whole(path: Path) -> bytes | None:
    """None where there is none, also after some tries: being written while it is read, it has another number at its
    end than at its beginning."""
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE_S)
        try:
            text = path.read_bytes()
        except OSError:
            return None
        if len(text) == SIZE and HEADER.unpack_from(text)[3] == SEQUENCE.unpack_from(text, SIZE - SEQUENCE.size)[0]:
            return text
    return None
