"""A running training as one JSON object."""

from __future__ import annotations

from typing import Any

from vtune.domain.watching import Watched
from vtune.journal.files import to_json
from vtune.journal.renewals import renewal_to_json


def watched_to_json(seen: Watched) -> dict[str, Any]:
    told: dict[str, Any] = to_json(seen)
    if seen.launch is not None and seen.launch.renewed is not None:
        told["launch"]["renewed"] = renewal_to_json(seen.launch.renewed)
    told["workers"] = [row.pid for row in seen.processes if row.role == "worker"]
    return told
