"""The most memory that a trial had on one device, and by whose word. Every source may be missing or too small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vtune.domain.events import Fact, GpuSample
from vtune.domain.machine import bare_uuid
from vtune.domain.numbers import bytes_

BY_PROCESS = "the driver, by process"
BY_ALLOCATOR = "the training's allocator, and what else the device held beyond what it did before the trial"
BY_ALLOCATOR_ALONE = "the training's allocator, without its context"
BY_DIFFERENCE = "the device, less what was used before the trial"
# The context is opened and libraries take their workspaces in the first steps.
CONTEXT_FROM_STEP = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class VramPeak:
    bytes: int | None = None
    source: str | None = None
    unknown_because: str | None = None


@dataclass(slots=True, kw_only=True)
class Allocator:
    """One device as the training told it, over all processes that use it."""

    number: int
    uuid: str | None
    name: str | None
    total_bytes: int | None
    # By process.
    reserved_peaks: dict[int, int] = field(default_factory=dict)
    # Used of the whole device beyond what the process reserved: its context, libraries, and whoever else is there.
    outside: list[tuple[int, int]] = field(default_factory=list)

    @property
    def reserved_peak_bytes(self) -> int | None:
        return sum(self.reserved_peaks.values()) if self.reserved_peaks else None

    def context_bytes(self, used_before: int | None) -> int | None:
        """The least that was seen: neighbours only add to it. With several processes nobody knows whose it is."""
        settled = [held for step, held in self.outside if step >= CONTEXT_FROM_STEP] or [h for _, h in self.outside]
        if not settled or used_before is None or len(self.reserved_peaks) != 1:
            return None
        context = min(settled) - used_before
        return context if context >= 0 else None


def allocators(facts: Sequence[Fact]) -> dict[str, Allocator]:
    """By bare UUID; by type and number where torch does not tell one."""
    found: dict[str, Allocator] = {}
    key_of: dict[tuple[int, int], str] = {}
    for fact in facts:
        number = _whole(fact.data.get("device"))
        if number is None:
            continue
        if fact.name == "device":
            uuid = fact.data.get("uuid")
            uuid = uuid if isinstance(uuid, str) and uuid else None
            key = bare_uuid(uuid) if uuid else f"{fact.data.get('type')}:{number}"
            key_of[fact.pid, number] = key
            name = fact.data.get("name")
            found.setdefault(
                key,
                Allocator(
                    number=number,
                    uuid=uuid,
                    name=str(name) if name is not None else None,
                    total_bytes=_whole(fact.data.get("total_bytes")),
                ),
            )
        elif fact.name == "memory" and (fact.pid, number) in key_of:
            one = found[key_of[fact.pid, number]]
            reserved, outside = _whole(fact.data.get("reserved_peak")), _whole(fact.data.get("outside"))
            if reserved is not None:
                one.reserved_peaks[fact.pid] = max(reserved, one.reserved_peaks.get(fact.pid, 0))
            if outside is not None:
                one.outside.append((_whole(fact.data.get("step")) or 0, outside))
    return found


def vram_peak(samples: Sequence[GpuSample], before: GpuSample | None, told: Allocator | None) -> VramPeak:
    """`before`: the device before the trial had anything on it."""
    used_before = before.used_bytes if before else None
    reserved = told.reserved_peak_bytes if told else None
    context = told.context_bytes(used_before) if told else None
    by_allocator = None if reserved is None else reserved + (context or 0)
    by_process = max((one.own_bytes for one in samples if one.own_bytes is not None), default=None)
    if by_process is not None:
        # Both are too small if anything: the driver is asked once a second, the allocator knows of nothing else. What
        # it held besides is not the context alone where others came meanwhile.
        own = by_allocator if context is not None and not _others_came(samples, before) else reserved
        if own is not None and own > by_process:
            return VramPeak(bytes=by_allocator, source=BY_ALLOCATOR_ALONE if context is None else BY_ALLOCATOR)
        return VramPeak(bytes=by_process, source=BY_PROCESS)
    grown = _grown(samples, before)
    if told is None:
        because = "the training has told no device, and the driver lists none of its processes on this one"
        if grown:
            because += f"; {bytes_(grown)} more than before the trial were used on it, by whomever"
        return VramPeak(unknown_because=because)
    if by_allocator is not None and context is not None:
        return VramPeak(bytes=by_allocator, source=BY_ALLOCATOR)
    if grown is not None and grown >= (reserved or 0):
        return VramPeak(bytes=grown, source=BY_DIFFERENCE)
    if reserved is not None:
        return VramPeak(bytes=reserved, source=BY_ALLOCATOR_ALONE)
    return VramPeak(unknown_because="neither the driver nor the training's allocator tells it")


def _others_came(samples: Sequence[GpuSample], before: GpuSample | None) -> bool:
    there = (before.others_bytes if before is not None else None) or 0
    return any((one.others_bytes or 0) > there for one in samples)


def _grown(samples: Sequence[GpuSample], before: GpuSample | None) -> int | None:
    """Since before the trial, less what known neighbours took meanwhile."""
    if before is None or before.used_bytes is None:
        return None
    neighbours, most = before.others_bytes, None
    for one in samples:
        neighbours = one.others_bytes if one.others_bytes is not None else neighbours
        if one.used_bytes is not None:
            # Where a list was empty before, nobody was on it.
            theirs = max(0, (neighbours or 0) - (before.others_bytes or 0))
            most = max(most or 0, one.used_bytes - before.used_bytes - theirs)
    return most


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
