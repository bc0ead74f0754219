"""Records out of a JSON object that vtune printed before, kept as a file: `probe --json`, `report --json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtune.domain.machine import Machine
from vtune.domain.record import TrialRecord
from vtune.errors import UsageError
from vtune.foreign.read import read_json
from vtune.journal.files import to_json
from vtune.journal.machine import machine_from_json
from vtune.journal.records import record_from_json
from vtune.journal.sound import is_sound

HINT = "name what vtune probe --json or vtune report --format json wrote"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    study: str
    records: tuple[TrialRecord, ...]
    # The trial that it is about: the one probed, or the one chosen.
    subject: int | None
    chosen: bool = False
    machine: Machine | None = None


def read_told(path: Path) -> Told:
    try:
        # NaN and Infinity, which Python's reader takes, are no numbers.
        item = to_json(read_json(path))
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise UsageError(f"{path} cannot be read: {why}", hint=HINT) from None
    if not isinstance(item, Mapping):
        raise UsageError(f"{path} holds no result of vtune", hint=HINT)
    if "error" in item:
        raise UsageError(f"{path} holds no result but an error: {json.dumps(str(item['error'])[:200])}", hint=HINT)
    told = _told(item)
    if told is None:
        raise UsageError(f"{path} holds no trial that this vtune understands", hint=HINT)
    return told


def _told(item: Mapping[str, Any]) -> Told | None:
    machine, study = machine_from_json(item.get("machine")), str(item.get("study") or "unknown")
    if (probed := _record(item.get("trial"))) is not None:
        return Told(study=study, records=(probed,), subject=probed.trial, machine=machine)
    if not isinstance(item.get("trials"), list):
        return None
    records = tuple(record for one in item["trials"] if (record := _record(one)) is not None)
    best = _record(item.get("best"))
    if not records and best is None:
        return None
    return Told(
        study=study,
        records=records or ((best,) if best else ()),
        subject=best.trial if best is not None else None,
        chosen=True,
        machine=machine,
    )


def _record(item: Any) -> TrialRecord | None:
    try:
        record = record_from_json(item)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return record if is_sound(record, TrialRecord) else None
