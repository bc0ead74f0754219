"""Whether what a trial took of memory is within the limits, and what would have to give."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from vtune.analysis.growth_words import passes_limit
from vtune.analysis.queues import no_room_text, queues_lack_room
from vtune.domain.choice import Excess
from vtune.domain.experiment import Limit, Limits
from vtune.domain.numbers import bytes_, trials_text
from vtune.domain.record import Measurement, TrialRecord

GIB, MIB = 2**30, 2**20


def excess_of(record: TrialRecord, limits: Limits, ram_total_bytes: int | None) -> tuple[Excess, ...]:
    found = []
    ram = limits.ram.resolve(ram_total_bytes) if limits.ram is not None else None
    if ram is not None and (over_ram := _ram_excess(record.measurement, ram)) is not None:
        found.append(over_ram)
    if limits.vram is not None:
        devices = _with_validation(_devices(record.measurement, limits.vram), record.measurement)
        over = [(need, most) for need, most in devices if need > most]
        if over:
            need, most = max(over, key=lambda device: device[0] / device[1])
            found.append(Excess(memory="VRAM", needs_bytes=need, limit_bytes=most))
    return tuple(found)


def _ram_excess(measured: Measurement, limit_bytes: int) -> Excess | None:
    peak, projected = measured.ram_peak_bytes, measured.ram_projected_bytes
    if projected is not None and projected > limit_bytes and projected > (peak or 0):
        passes = passes_limit(measured, limit_bytes)
        when = None if passes is None or (peak or 0) > limit_bytes else passes.text()
        return Excess(memory="RAM", needs_bytes=projected, limit_bytes=limit_bytes, projected=True, when=when)
    if peak is not None and peak > limit_bytes:
        return Excess(memory="RAM", needs_bytes=peak, limit_bytes=limit_bytes)
    return None


def needs_text(excess: Excess) -> str:
    if excess.projected:
        when = f", which it passes {excess.when}" if excess.when is not None else ""
        return (
            f"would grow to {bytes_(excess.needs_bytes)} of {excess.memory}, the limit is"
            f" {bytes_(excess.limit_bytes)}{when} ({relaxed(excess)} would let it in)"
        )
    return (
        f"needs {bytes_(excess.needs_bytes)} of {excess.memory}, the limit is {bytes_(excess.limit_bytes)}"
        f" ({relaxed(excess)} would let it in)"
    )


def relaxed(excess: Excess) -> str:
    """The option that would let it in, rounded up to what people type."""
    need = excess.needs_bytes
    amount = f"{math.ceil(need / GIB * 10) / 10:g}GiB" if need >= GIB else f"{math.ceil(need / MIB)}MiB"
    return f"--{excess.memory.lower()}-limit {amount}"


def unjudged(records: Iterable[TrialRecord], limits: Limits, ram_total_bytes: int | None) -> list[str]:
    """A limit that could not be held against a trial is told, or silence would read as "fits"."""
    records, lines = list(records), []
    if limits.ram is not None:
        if limits.ram.resolve(ram_total_bytes) is None:
            lines.append(f"the RAM limit of {limits.ram.text} was not judged: the machine's RAM is not known here")
        else:
            lines += _unknown("RAM", limits.ram, [r for r in records if r.measurement.ram_peak_bytes is None])
    if limits.vram is not None:
        if records and not any(_saw_device(record.measurement) for record in records):
            lines.append(f"the VRAM limit of {limits.vram.text} was not judged: no GPU was seen")
        else:
            lines += _unknown("VRAM", limits.vram, [r for r in records if not _devices(r.measurement, limits.vram)])
    return lines


def _saw_device(measured: Measurement) -> bool:
    return bool(measured.gpus) or measured.vram_peak_bytes is not None


def _unknown(memory: str, limit: Limit, records: Sequence[TrialRecord]) -> list[str]:
    if not records:
        return []
    named = trials_text([record.trial for record in records])
    return [f"the {memory} limit of {limit.text} was not judged for {named}: the peak is not known"]


def _with_validation(devices: list[tuple[int, int]], measured: Measurement) -> list[tuple[int, int]]:
    """A validation that took more than the device was seen to hold: the driver is asked once a second. Of several
    devices it was on the fullest."""
    if not devices:
        return []
    fullest = max(devices)
    needs = max(fullest[0], measured.vram_validation_peak_bytes or 0)
    return [(needs, most) if (need, most) == fullest else (need, most) for need, most in devices]


def out_of_room(record: TrialRecord) -> bool:
    """What runs now runs at the edge: a batch of another shape, a neighbour's megabyte, or a pause that lets its queues
    fill up ends it. That the user's own queues may fill up is theirs to know."""
    return bool(record.measurement.alloc_retries) or _lacks_shm(record)


def out_of_shm(record: TrialRecord) -> bool:
    return not record.measurement.alloc_retries and _lacks_shm(record)


def _lacks_shm(record: TrialRecord) -> bool:
    return bool(record.asked) and queues_lack_room(record.measurement)


def room_text(record: TrialRecord) -> str:
    if out_of_shm(record):
        return no_room_text(record.measurement)
    count = record.measurement.alloc_retries or 0
    times = "time" if count == 1 else "times"
    return f"its allocator gave memory back {count} {times} after warm-up: it is out of room"


def _devices(measured: Measurement, limit: Limit) -> list[tuple[int, int]]:
    """Need and limit of each device; a share is one of the device's own size."""
    devices = []
    for gpu in measured.gpus:
        most = limit.resolve(gpu.vram_total_bytes)
        if gpu.vram_peak_bytes is not None and most is not None:
            devices.append((gpu.vram_peak_bytes, most))
    if not devices and measured.vram_peak_bytes is not None and limit.bytes is not None:
        devices.append((measured.vram_peak_bytes, limit.bytes))
    return devices
