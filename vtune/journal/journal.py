"""The journal: one line a trial, append-only, fsynced. It is the only memory of a study."""

from __future__ import annotations

import json
import os
from pathlib import Path

from vtune.domain.record import TrialRecord
from vtune.journal.files import complete_lines
from vtune.journal.records import record_from_json, record_to_json


class Journal:
    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[TrialRecord]:
        """What stands in whole lines. A torn last line was never acknowledged, so nobody misses it."""
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return []
        records = []
        for item in complete_lines(text):
            try:
                records.append(record_from_json(item))
            except (KeyError, TypeError, ValueError):
                continue
        return records

    def append(self, record: TrialRecord) -> None:
        line = json.dumps(record_to_json(record)).encode() + b"\n"
        fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # A torn line left by a crash would swallow this one: end it first.
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                line = b"\n" + line
            written = os.write(fd, line)
            if written != len(line):  # a full disk: take the half line back rather than leave it
                os.ftruncate(fd, size)
                raise OSError(28, "no space left for the journal", str(self._path))
            os.fsync(fd)
        finally:
            os.close(fd)
