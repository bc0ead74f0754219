"""The training's own Python files as a trial ran them: by their contents, so that a touched file is the same one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from vtune.domain.events import Fact
from vtune.domain.record import CODE, TrialRecord

DIGITS = 16


def code_of(facts: Iterable[Fact]) -> dict[str, str]:
    files = {str(path) for fact in facts if fact.name == "modules" for path in fact.data.get("files") or ()}
    return {path: digest for path in sorted(files) if (digest := _digest(path)) is not None}


def changed_code(record: TrialRecord, digests: dict[str, str | None]) -> list[str]:
    """Files that are otherwise now than when it ran. One that is gone may only have been moved: it says nothing.
    `digests`: of what was looked at already, for the trials of a study all ran the same few files."""
    ran = record.evidence.get(CODE)
    if not isinstance(ran, Mapping):
        return []
    digests.update({path: _digest(path) for path in ran if path not in digests})
    return [path for path, then in ran.items() if digests[path] not in (None, then)]


def _digest(path: str) -> str | None:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:DIGITS]
    except OSError:
        return None
