"""The counters of a full run's process, written as the worker writes them (docs/decisions/0015)."""

from __future__ import annotations

from pathlib import Path

from vtune.journal.counts import HEADER, MAGIC, SEQUENCE, SIZE, SLOT

DELIVERED, STEP = 2, 4


def write_counts(attempt: Path, last_s: float, steps: int) -> None:
    """Of batches of two samples; half of the time was spent waiting for them."""
    slots = [SLOT.pack(DELIVERED, 5, 0, 0, steps, 2 * steps, 0.5 * last_s, last_s, 0.1)]
    slots += [SLOT.pack(STEP, 1, 0, 0, steps, 0, 0.0, last_s, 0.1)]
    text = HEADER.pack(MAGIC, 1, len(slots), 1, last_s) + b"".join(slots)
    (attempt / "counts-9.bin").write_bytes(text.ljust(SIZE - SEQUENCE.size, b"\0") + SEQUENCE.pack(1))
