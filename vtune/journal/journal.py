"""The journal: one line a trial, append-only, fsynced. It is the only memory of a study."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path

from vtune.domain.record import TrialRecord
from vtune.errors import UsageError
from vtune.files import refused
from vtune.foreign.bounds import BadText
from vtune.foreign.json_text import parse_json
from vtune.foreign.read import read_bytes
from vtune.journal.records import SCHEMA, record_from_json, record_to_json
from vtune.journal.sound import is_sound

# How each record begins. Within a record's texts it cannot stand: quotes are escaped there.
_BEGINNING = re.compile(rb'(?=\{\s*"schema"\s*:)')
# And its number, which vtune writes right after it.
_NUMBER = re.compile(rb'\{\s*"schema"\s*:\s*\d+\s*,\s*"trial"\s*:\s*(\d+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalText:
    """What a journal holds, and what of it could not be read."""

    records: tuple[TrialRecord, ...] = ()
    # Whole lines that are no record; those of a newer vtune are counted apart.
    unreadable: int = 0
    newer: int = 0
    # Lines that hold several records because a line end was lost, and how many of the records could not be told apart.
    joined: int = 0
    lost: int = 0
    # Trials with more than one line, by number: of journals that somebody put together, the later line holds.
    repeated: tuple[int, ...] = ()
    # The last line has no end: a trial is being recorded this very moment, or its vtune was killed while it was.
    torn: bool = False


class Journal:
    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[TrialRecord]:
        """What stands in whole lines. A torn last line was never acknowledged, so nobody misses it."""
        return list(self.read_whole().records)

    def read_whole(self) -> JournalText:
        try:
            text = read_bytes(self._path, most=None)
        except FileNotFoundError:
            return JournalText()
        except OSError as error:
            raise refused(error, f"cannot read {self._path}") from error
        except BadText as error:
            raise no_file(error, self._path) from error
        *lines, rest = text.split(b"\n")
        records: dict[int, TrialRecord] = {}
        repeated: list[int] = []
        unreadable = newer = joined = lost = 0
        for line in filter(None, map(bytes.strip, lines)):
            found = _record(line)
            if isinstance(found, TrialRecord):
                parts = [found]
            elif found == 0 and len(pieces := list(filter(None, _BEGINNING.split(line)))) > 1:
                joined += 1
                parts = [part for part in map(_record, pieces) if isinstance(part, TrialRecord)]
                lost += len(pieces) - len(parts)
            else:
                unreadable += 1
                newer += found > SCHEMA
                continue
            for record in parts:
                if record.trial in records and record.trial not in repeated:
                    repeated.append(record.trial)
                records[record.trial] = record
        return JournalText(
            records=tuple(records.values()),
            unreadable=unreadable,
            newer=newer,
            joined=joined,
            lost=lost,
            repeated=tuple(repeated),
            torn=bool(rest.strip()),
        )

    def numbers(self) -> list[int]:
        """Of all trials, without understanding what they were: an old journal is long."""
        try:
            text = read_bytes(self._path, most=None)
        except FileNotFoundError:
            return []
        except BadText as error:
            raise no_file(error, self._path) from error
        return [int(one) for one in _NUMBER.findall(text)]

    def append(self, record: TrialRecord) -> None:
        line = json.dumps(record_to_json(record)).encode() + b"\n"
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._path, flags, 0o644)
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


def no_file(error: BadText, path: Path) -> UsageError:
    """A FIFO or a folder in the place of a study's file."""
    return UsageError(f"{path} {error.message}", hint="move it away, or choose another study with --study NAME")


def _finite(text: str) -> float | None:
    """NaN, Infinity and 1e999, which Python's reader takes, are no numbers."""
    value = float(text)
    return value if math.isfinite(value) else None


def _record(line: bytes) -> TrialRecord | int:
    """The record, or the schema of what is none that this vtune understands."""
    schema = 0
    try:
        item = parse_json(line.decode("utf-8"), parse_constant=lambda word: None, parse_float=_finite)
        schema = item["schema"] if isinstance(item.get("schema"), int) else 0
        record = record_from_json(item)
        return record if is_sound(record, TrialRecord) else schema
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return schema
