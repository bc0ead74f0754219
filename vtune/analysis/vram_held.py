"""The limit that the training's own allocator was held to, and whether it or the device had no more room."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vtune.domain.events import Fact
from vtune.domain.experiment import Limit
from vtune.domain.machine import bare_uuid
from vtune.domain.machine_use import GpuUse
from vtune.domain.numbers import bytes_

ITSELF_FULL = "itself had"
ASKED = re.compile(r"[Tt]ried to allocate (?P<amount>\d+(?:\.\d+)?) ?(?P<unit>[KkMGT]i?B)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One process on one device."""

    device: int
    uuid: str
    allowed_bytes: int
    # Of the limit, what the process takes beyond its allocator; 0 where it is not known.
    context_bytes: int
    total_bytes: int
    # The script had set a smaller fraction by itself.
    by_script: bool
    # Processes of the trial that share the device, and with it the limit.
    sharing: int
    # As its allocator told last.
    reserved_bytes: int | None
    outside_bytes: int | None
    ooms: int

    @property
    def left_on_device(self) -> int | None:
        if self.reserved_bytes is None or self.outside_bytes is None:
            return None
        return max(0, self.total_bytes - self.outside_bytes - self.reserved_bytes)

    def was_full(self, asked_bytes: float | None) -> bool:
        """Full, or too small for what was asked for at once."""
        left = self.left_on_device
        return not self.was_tighter or (asked_bytes is not None and left is not None and asked_bytes > left)

    @property
    def was_tighter(self) -> bool:
        """Of the two rooms, that below the limit was the smaller one."""
        return self.outside_bytes is None or self.allowed_bytes <= self.total_bytes - self.outside_bytes


def held_devices(facts: Sequence[Fact]) -> list[Held]:
    told: dict[tuple[int, int], Mapping[str, Any]] = {}
    memory: dict[tuple[int, int], Mapping[str, Any]] = {}
    for fact in facts:
        number = fact.data.get("device")
        if isinstance(number, int) and fact.name in ("vram_limit", "memory"):
            (told if fact.name == "vram_limit" else memory)[fact.pid, number] = fact.data
    found = []
    for (pid, number), data in told.items():
        seen = memory.get((pid, number), {})
        found.append(
            Held(
                device=number,
                uuid=str(data.get("uuid") or ""),
                allowed_bytes=int(data["bytes"]),
                context_bytes=int(data.get("context") or 0),
                total_bytes=int(data["total"]),
                by_script=data.get("by") == "script",
                sharing=int(data.get("sharing") or 1),
                reserved_bytes=seen.get("reserved"),
                outside_bytes=seen.get("outside"),
                ooms=int(seen.get("ooms") or 0),
            )
        )
    return found


def whose_room(
    detail: str | None, facts: Sequence[Fact], gpus: Sequence[GpuUse], *, in_validation: bool = False
) -> str | None:
    """Of a training that ran out of VRAM by itself: its end, told with what it ran into."""
    dead = next((one for one in held_devices(facts) if one.ooms), None)
    if dead is None or detail is None:
        return f"in its validation {detail}" if in_validation and detail is not None else detail
    when = "in its validation " if in_validation else ""
    where, left = f"GPU {_index(dead, gpus)}", dead.left_on_device
    context = 0 if dead.by_script else dead.context_bytes
    allowed = bytes_(dead.allowed_bytes + context)
    if dead.sharing > 1:
        allowed += f" (its share: {dead.sharing} processes are on it)"
    if context:
        allowed += f" ({bytes_(context)} of it for its context)"
    if dead.was_full(_asked_bytes(detail)):
        room = "too little room" if left is None else f"too little room ({bytes_(left)} left)"
        limit = f", below the limit of {allowed}" if not dead.was_tighter else ", whatever its limit"
        return f"{when}{where} {ITSELF_FULL} {room}{limit}: {detail}"
    whose = "the script's own limit" if dead.by_script else "the VRAM limit"
    beside = "" if left is None else f"; the device itself had {bytes_(left)} left"
    return f"{when}it asked for more than {whose} of {allowed} that it is held to on {where}{beside}: {detail}"


def enforced_limit(detail: str | None, facts: Sequence[Fact], limit: Limit | None) -> Mapping[str, int] | None:
    """The limit that a training died of, as it was asked for: under a higher one it may live. None where the device
    itself was full, or the script had held itself to less."""
    dead = next((one for one in held_devices(facts) if one.ooms), None)
    if dead is None or limit is None or dead.by_script or dead.was_full(_asked_bytes(detail or "")):
        return None
    allowed = limit.resolve(dead.total_bytes)
    return None if allowed is None else {"limit_bytes": allowed, "device_bytes": dead.total_bytes}


def _asked_bytes(words: str) -> float | None:
    found = ASKED.search(words)
    if found is None:
        return None
    base: float = 1024 if found["unit"].endswith("iB") else 1000
    power: int = 1 + "KMGT".index(found["unit"][0].upper())
    return float(found["amount"] or 0.0) * float(base**power)


def held_notes(facts: Sequence[Fact], gpus: Sequence[GpuUse], *, completed: bool) -> list[str]:
    lines = []
    for one in held_devices(facts):
        if one.by_script:
            lines.append(
                f"the script holds itself to {bytes_(one.allowed_bytes)} on GPU {_index(one, gpus)}, less than the"
                " VRAM limit"
            )
    ooms = sum(_most_ooms(facts).values()) if completed else 0
    if ooms:
        times = "once" if ooms == 1 else f"{ooms} times"
        lines.append(f"it ran out of VRAM {times} and went on: the script caught it, or cuDNN tried a workspace")
    return lines


def _most_ooms(facts: Sequence[Fact]) -> dict[tuple[int, object], int]:
    most: dict[tuple[int, object], int] = {}
    for fact in facts:
        ooms = fact.data.get("ooms")
        if fact.name == "memory" and isinstance(ooms, int):
            key = fact.pid, fact.data.get("device")
            most[key] = max(ooms, most.get(key, 0))
    return most


def _index(held: Held, gpus: Sequence[GpuUse]) -> int:
    """The driver's number, where it is known."""
    return next((gpu.index for gpu in gpus if gpu.uuid and bare_uuid(gpu.uuid) == bare_uuid(held.uuid)), held.device)
