"""The machine that a journal is from: what tells it from another one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vtune.domain.machine import Machine
from vtune.foreign.read import read_json
from vtune.journal.sound import is_sound

# What a rate depends on. A driver's update is no other machine, but it is another measurement.
TOLD_BY = ("host", "cpu_model", "cores", "declared_cores", "gpus", "gpu_driver")


def read_machine(path: Path) -> Machine | None:
    try:
        return machine_from_json(read_json(path))
    except (OSError, ValueError, RecursionError):
        return None


def machine_from_json(known: Any) -> Machine | None:
    try:
        fields: Mapping[str, Any] = {f.name: known[f.name] for f in dataclasses.fields(Machine) if f.name in known}
        machine = Machine(**{**fields, "gpus": tuple(fields.get("gpus") or ())})
    except (TypeError, KeyError):
        return None
    return machine if is_sound(machine, Machine) else None


def differences(one: Machine, other: Machine) -> list[str]:
    """In words, what makes them two machines."""
    found = []
    for name in TOLD_BY:
        here, there = getattr(one, name), getattr(other, name)
        if here != there:
            found.append(f"{name} {_shown(here)} and {_shown(there)}")
    return found


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "unknown" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
