"""The devices of a trial: what the driver told while it ran, joined by UUID with what the training told of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from vtune.analysis.vram import Allocator, VramPeak, allocators, vram_peak
from vtune.domain.events import Fact, GpuSample, TelemetrySample
from vtune.domain.experiment import Limit
from vtune.domain.machine import Gpu, bare_uuid
from vtune.domain.machine_use import GpuUse
from vtune.domain.numbers import bytes_
from vtune.domain.record import Measurement

# From, to: seconds of the monotonic clock.
Span = tuple[float, float]

# A first value was averaged over this long; later ones over the time since the value before.
FIRST_COVERS_S = 1.0
# Of the window: less of it would be told as if it were the whole. What is missing at its edges is taken to be as the
# rest; a device that is asked once a second has not been asked at the end of a short window.
COVERED = 0.5
# A sum is wrong by what is missing, a mean is not.
ENERGY_COVERED = 0.8
# With a neighbour the driver's utilization is not the training's alone: one that keeps the device busy for this many
# percent of the time, or, where nobody tells, one that holds what a context that computes does, and a desktop does not.
NEIGHBOUR_COMPUTES = 2.0
NEIGHBOUR_BYTES = 256 * 2**20

# Why a metric of the window is not known although the driver tells it.
_NOT_IN_WINDOW = "the driver did not tell it for most of the measured steps"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """One device of the trial."""

    use: GpuUse
    samples: Sequence[tuple[float, GpuSample]]


def with_gpus(
    measured: Measurement,
    *,
    telemetry: Sequence[TelemetrySample],
    gpus: Sequence[Gpu],
    facts: Sequence[Fact],
    spans: Sequence[Span],
) -> Measurement:
    """`spans`: the measured steps, in order; steps over an epoch's boundary are not among them."""
    merged = _merged(spans)
    uses = tuple(_over_window(seen, merged) for seen in _devices(telemetry, gpus, facts))
    peaks = [use.vram_peak_bytes for use in uses if use.vram_peak_bytes is not None]
    return replace(measured, gpus=uses, vram_peak_bytes=max(peaks, default=None))


def memory_of_gpus(
    *, telemetry: Sequence[TelemetrySample], gpus: Sequence[Gpu], facts: Sequence[Fact]
) -> tuple[GpuUse, ...]:
    """Memory alone, for whoever watches a limit while the trial runs."""
    return tuple(seen.use for seen in _devices(telemetry, gpus, facts))


def over_vram_limit(gpus: Iterable[GpuUse], limit: Limit) -> tuple[GpuUse, int] | None:
    """The fullest of the devices over the limit, and what the limit is there."""
    over = []
    for gpu in gpus:
        most = limit.resolve(gpu.vram_total_bytes)
        if gpu.vram_peak_bytes is not None and most is not None and gpu.vram_peak_bytes > most:
            over.append((gpu, most))
    return max(over, key=lambda one: one[0].vram_peak_bytes or 0, default=None)


def gpu_notes(gpus: Iterable[GpuUse]) -> list[str]:
    """What a reader of the rate must know of the devices."""
    lines = []
    for gpu in gpus:
        if "device" in gpu.unknown:
            lines.append(f"GPU {gpu.index}: {gpu.unknown['device']}")
        else:
            # One reason often holds for several.
            for because in dict.fromkeys(gpu.unknown.values()):
                metrics = ", ".join(metric for metric, reason in gpu.unknown.items() if reason == because)
                lines.append(f"not known of GPU {gpu.index}: {metrics} ({because})")
        if neighbour_computes(gpu):
            share = gpu.others_util_mean
            what = (
                f"hold {bytes_(gpu.others_peak_bytes)} of"
                if share is None
                else f"computed {share:.0f} % of the time on"
            )
            lines.append(
                f"others {what} GPU {gpu.index}: whether it idles for the training is not known, and alone on it the"
                " training may be faster"
            )
    return lines


def neighbour_computes(gpu: GpuUse) -> bool:
    if gpu.others_util_mean is not None:
        return gpu.others_util_mean >= NEIGHBOUR_COMPUTES
    return (gpu.others_peak_bytes or 0) > NEIGHBOUR_BYTES


def _devices(telemetry: Sequence[TelemetrySample], gpus: Sequence[Gpu], facts: Sequence[Fact]) -> list[_Seen]:
    """Those that the training told or was seen on by the driver; where nobody knows, all that were looked at."""
    samples: dict[str, list[tuple[float, GpuSample]]] = {}
    for sample in telemetry if gpus else ():
        for one in sample.gpus:
            samples.setdefault(bare_uuid(one.uuid), []).append((sample.t_s, one))
    before = {bare_uuid(one.uuid): one for one in telemetry[0].gpus} if telemetry else {}
    told = allocators(facts)
    known = {bare_uuid(gpu.uuid): gpu for gpu in gpus}
    seen_on = {uuid for uuid, all_of in samples.items() if any(one.own_bytes is not None for _, one in all_of)}
    _name_the_nameless(told, [uuid for uuid in known if uuid in seen_on or len(known) == 1])
    mine = [uuid for uuid in known if uuid in told or uuid in seen_on]
    if not told and not mine:
        mine = list(known)
    found = []
    for uuid in mine:
        own = samples.get(uuid, [])
        peak = vram_peak([one for _, one in own], before.get(uuid), told.get(uuid))
        found.append(_Seen(use=_use(known[uuid], peak, own), samples=own))
    found += [_told_only(one) for key, one in told.items() if key not in known]
    return found


def _name_the_nameless(told: dict[str, Allocator], candidates: Sequence[str]) -> None:
    """Before torch 2.5 it tells no UUID: where only one device can be meant, it is that one."""
    nameless = [key for key, one in told.items() if one.uuid is None and key.startswith("cuda:")]
    free = [uuid for uuid in candidates if uuid not in told]
    if len(nameless) == 1 and len(free) == 1:
        told[free[0]] = told.pop(nameless[0])


def _use(gpu: Gpu, peak: VramPeak, samples: Sequence[tuple[float, GpuSample]]) -> GpuUse:
    return GpuUse(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        vram_peak_bytes=peak.bytes,
        vram_from=peak.source,
        vram_total_bytes=gpu.memory_bytes,
        others_peak_bytes=max((one.others_bytes for _, one in samples if one.others_bytes is not None), default=None),
        unknown={**gpu.unknown, **({"vram": peak.unknown_because} if peak.unknown_because else {})},
    )


def _told_only(told: Allocator) -> _Seen:
    """Of another maker, or its driver cannot be asked: the training's own word is all there is."""
    peak = vram_peak((), None, told)
    use = GpuUse(
        index=told.number,
        uuid=told.uuid or "",
        name=told.name,
        vram_peak_bytes=peak.bytes,
        vram_from=peak.source,
        vram_total_bytes=told.total_bytes,
        unknown={"device": "its driver was not asked: NVML does not know it; the index is torch's"},
    )
    return _Seen(use=use, samples=())


def _over_window(seen: _Seen, spans: Sequence[Span]) -> GpuUse:
    if not spans or not seen.samples:
        return seen.use
    inside = [one for t_s, one in seen.samples if any(begin <= t_s <= end for begin, end in spans)]

    def mean(value: Callable[[GpuSample], float | None]) -> float | None:
        return _mean_over_time([(t_s, value(one)) for t_s, one in seen.samples], spans)

    energy_j, no_energy = _energy_j([(t, one.energy_j) for t, one in seen.samples if one.energy_j is not None], spans)
    use = replace(
        seen.use,
        util_mean=mean(lambda one: one.util_percent),
        others_util_mean=mean(lambda one: one.others_util_percent),
        power_w_mean=mean(lambda one: one.power_w),
        energy_j=energy_j,
        sm_clock_mhz_mean=mean(lambda one: one.sm_clock_mhz),
        temperature_c_max=max((one.temperature_c for one in inside if one.temperature_c is not None), default=None),
        throttled=_shares(inside),
        pcie_to_device_bytes_per_s=mean(lambda one: one.pcie_to_device_bytes_per_s),
    )
    return replace(use, unknown=_with_reasons(use, no_energy))


def _with_reasons(use: GpuUse, no_energy: str) -> dict[str, str]:
    unknown = dict(use.unknown)
    if "device" in unknown:  # it says why of all of them
        return unknown
    for metric, value, because in (
        ("utilization", use.util_mean, _NOT_IN_WINDOW),
        ("power", use.power_w_mean, _NOT_IN_WINDOW),
        ("energy", use.energy_j, no_energy),
        ("sm_clock", use.sm_clock_mhz_mean, _NOT_IN_WINDOW),
    ):
        if value is None:
            unknown.setdefault(metric, because)
    return unknown


def _merged(spans: Sequence[Span]) -> list[Span]:
    merged: list[Span] = []
    for begin, end in spans:
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _overlap_s(begin: float, end: float, spans: Sequence[Span]) -> float:
    return sum(max(0.0, min(end, until) - max(begin, since)) for since, until in spans)


def _mean_over_time(values: Sequence[tuple[float, float | None]], spans: Sequence[Span]) -> float | None:
    """Each value stands for the time since the one before it: it counts for as much of that as was measured."""
    known = [(t_s, value) for t_s, value in values if value is not None]
    total = weight = 0.0
    for number, (t_s, value) in enumerate(known):
        since = known[number - 1][0] if number else t_s - FIRST_COVERS_S
        counts_s = _overlap_s(since, t_s, spans)
        total, weight = total + value * counts_s, weight + counts_s
    return total / weight if weight and weight >= COVERED * _length_s(spans) else None


def _energy_j(counter: Sequence[tuple[float, float]], spans: Sequence[Span]) -> tuple[float | None, str]:
    """And why it is not known."""
    spent = covered_s = 0.0
    for (since, before), (until, after) in pairwise(counter):
        if after < before:
            return None, "its counter started anew meanwhile: the driver was loaded again"
        counts_s = _overlap_s(since, until, spans)
        if counts_s:
            spent += (after - before) * counts_s / (until - since)
            covered_s += counts_s
    wanted_s = _length_s(spans)
    if not covered_s or covered_s < ENERGY_COVERED * wanted_s:
        return None, _NOT_IN_WINDOW
    return spent * wanted_s / covered_s, ""


def _length_s(spans: Sequence[Span]) -> float:
    return sum(end - begin for begin, end in spans)


def _shares(samples: Sequence[GpuSample]) -> dict[str, float]:
    named = [reason for one in samples for reason in one.throttled_by]
    return {reason: named.count(reason) / len(samples) for reason in dict.fromkeys(named)}
