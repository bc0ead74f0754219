"""Whether what a trial took of memory is within the limits, and what would have to give."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from vtune.domain.choice import Excess
from vtune.domain.experiment import Limit, Limits
from vtune.domain.numbers import bytes_, trials_text
from vtune.domain.record import Measurement, TrialRecord

GIB, MIB = 2**30, 2**20


def excess_of(record: TrialRecord, limits: Limits, ram_total_bytes: int | None) -> tuple[Excess, ...]:
    found = []
    ram = limits.ram.resolve(ram_total_bytes) if limits.ram is not None else None
    peak = record.measurement.ram_peak_bytes
    if ram is not None and peak is not None and peak > ram:
        found.append(Excess(memory="RAM", needs_bytes=peak, limit_bytes=ram))
    if limits.vram is not None:
        over = [(need, most) for need, most in _devices(record.measurement, limits.vram) if need > most]
        if over:
            need, most = max(over, key=lambda device: device[0] / device[1])
            found.append(Excess(memory="VRAM", needs_bytes=need, limit_bytes=most))
    return tuple(found)


def nearest_relaxation(over: Mapping[int, tuple[Excess, ...]]) -> int | None:
    """Of the trials that only a limit rules out, the one that asks for the smallest change of it."""
    return min(over, key=lambda trial: max(e.needs_bytes / e.limit_bytes for e in over[trial]), default=None)


def needs_text(excess: Excess) -> str:
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
