"""Which GPUs, drivers and builds of torch have passed the self-test on this account."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vtune.files import write_atomically
from vtune.foreign.read import read_json

# Whoever validates hundreds of machines over one home folder still reads a small file.
MOST_ENTRIES = 200


def is_validated(gpus: Sequence[str], driver: str | None, *, torch: str | None) -> bool:
    """Whether these kinds of GPU, by name, have passed with this driver and this torch."""
    return any(
        set(gpus) <= set(entry["gpus"])
        and bool(gpus) == bool(entry["gpus"])
        and entry.get("driver") == driver
        and entry.get("torch") == torch
        for entry in entries()
    )


def remember(gpus: Sequence[str], driver: str | None, *, torch: str | None, vtune: str, when: str) -> None:
    """A machine that has passed; one without a GPU passes with no name."""
    new = {"gpus": sorted(set(gpus)), "driver": driver, "torch": torch, "vtune": vtune, "when": when}
    kept = [one for one in entries() if _what(one) != _what(new)]
    path = validated_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps([*kept, new][-MOST_ENTRIES:], indent=1) + "\n")


def forget(gpus: Sequence[str], driver: str | None, *, torch: str | None) -> None:
    """It failed now: an earlier pass is no proof any more."""
    gone = {"gpus": sorted(set(gpus)), "driver": driver, "torch": torch}
    before = entries()
    kept = [one for one in before if _what(one) != _what(gone)]
    if kept != before:
        write_atomically(validated_file(), json.dumps(kept, indent=1) + "\n")


def entries() -> list[dict[str, Any]]:
    """What cannot be read counts for nothing."""
    try:
        found = read_json(validated_file())
    except (OSError, ValueError):
        return []
    return (
        [one for one in found if isinstance(one, dict) and isinstance(one.get("gpus"), list)]
        if isinstance(found, list)
        else []
    )


def validated_file() -> Path:
    # A relative path there is to be ignored, says the XDG specification.
    named = os.environ.get("XDG_STATE_HOME", "")
    state = Path(named) if os.path.isabs(named) else Path.home() / ".local" / "state"
    return state / "vtune" / "validated.json"


def _what(entry: Mapping[str, Any]) -> tuple[tuple[str, ...], object, object]:
    return tuple(entry["gpus"]), entry.get("driver"), entry.get("torch")
