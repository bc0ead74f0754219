"""How torch hands out an allocator's counters, flat or nested, and how its functions read their `device`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from _vtune_hooks.devices import Device

ALLOCATED, RESERVED = "allocated_bytes.all", "reserved_bytes.all"


def peaks(stats: Any) -> dict[str, int]:
    """The peaks among an allocator's counters, flat: `reserved_bytes.all.peak`."""
    return {name: value for name, value in _flat(stats) if name.endswith(".peak")}


def _flat(stats: Any, prefix: str = "") -> Iterator[tuple[str, int]]:
    for name, value in stats.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def number(stats: Any, name: str) -> int | None:
    if name in stats:
        return int(stats[name])
    found = stats
    for part in name.split("."):
        if not isinstance(found, dict) or part not in found:
            return None
        found = found[part]
    return int(found)


def index_of(device: Device, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """As torch itself reads its functions' `device`."""
    asked = args[0] if args else next(iter(kwargs.values()), None)
    if isinstance(asked, str):
        asked = int(asked.rpartition(":")[2]) if ":" in asked else None
    elif asked is not None and not isinstance(asked, int):
        asked = asked.index
    return int(device.index_now()) if asked is None else int(asked)
