"""What a loader's full queues take: shared memory for batches on their way, pinned memory for those that are ready."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vtune.analysis.roles import Roles
from vtune.domain.advice import Advice
from vtune.domain.effects import Scalar
from vtune.domain.events import Fact, TelemetrySample
from vtune.domain.numbers import bytes_
from vtune.domain.record import Measurement, TrialRecord
from vtune.domain.trial import TrialStatus

# A batch that is taken, and one that is made while all queues are full.
BEYOND_THE_QUEUE = 2
# Where nobody counted the segments, or the next batch may be a larger one.
SHARE_ON_TOP = 1.15
# As torch does, where nobody asks for another one.
USUAL_PREFETCH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    needed_bytes: int
    batch_bytes: int
    batch_shm_bytes: int
    detail: str
    advice: tuple[Advice, ...]


def needed_shm_bytes(batch_shm_bytes: int, workers: int, prefetch: int) -> int:
    return (workers * prefetch + BEYOND_THE_QUEUE) * batch_shm_bytes if workers else 0


def batch_in_shm(measured: Measurement, times: float = 1.0) -> int | None:
    """What one batch of so many times the samples takes. Pages of which a segment fills a part do not get fewer with
    the samples."""
    size = measured.batch_bytes
    if size is None:
        return None
    whole = measured.batch_shm_bytes if measured.batch_shm_bytes is not None else int(size * SHARE_ON_TOP)
    return round(max(whole * times, size * times + whole - size))


def beside_the_queues(measured: Measurement) -> int:
    """What a trial held in /dev/shm that full queues cannot have been: another loader's, the training's own."""
    workers, prefetch = (measured.effective_settings.get(name) for name in ("workers", "prefetch_factor"))
    whole = batch_in_shm(measured)
    if measured.shm_peak_bytes is None or whole is None or not isinstance(workers, int):
        return 0
    prefetch = prefetch if isinstance(prefetch, int) else USUAL_PREFETCH
    return max(0, measured.shm_peak_bytes - max(1, measured.ranks) * needed_shm_bytes(whole, workers, prefetch))


def with_queues(measured: Measurement, roles: Roles, facts: Sequence[Fact]) -> Measurement:
    if roles.train is None:
        return measured
    told = [
        fact.data
        for fact in facts
        if fact.name == "shape" and fact.pid == roles.pid and fact.data.get("loader") in roles.train.numbers
    ]
    batch = max((size for data in told if isinstance(size := data.get("bytes"), int)), default=0)
    if not batch:
        return measured
    pinned = max((size for data in told if isinstance(size := data.get("pinned_bytes"), int)), default=0)
    # Without a device torch pins nothing, whatever it was asked. Its queue of pinned batches has no bound of its own.
    pins = roles.settings.get("pin_memory") is True and any(fact.name == "device" for fact in facts)
    ranks = max(1, len(roles.ranks))
    measured = replace(
        measured,
        batch_bytes=batch,
        batch_shm_bytes=_segments(told, batch),
        pinned_bytes=ranks * max(1, roles.stock) * pinned if pins else None,
    )
    queues = ranks * needed_shm_bytes(batch_in_shm(measured) or 0, roles.workers, roles.prefetch)
    return replace(measured, shm_needed_bytes=queues + beside_the_queues(measured))


def with_shm_room(measured: Measurement, telemetry: Sequence[TelemetrySample], shm_bytes: int | None) -> Measurement:
    before = next((sample.shm_used_bytes for sample in telemetry if sample.shm_used_bytes is not None), None)
    return (
        measured
        if shm_bytes is None or before is None
        else replace(measured, shm_room_bytes=max(0, shm_bytes - before))
    )


def _segments(told: Sequence[Mapping[str, Any]], batch: int) -> int | None:
    """As they were counted. An epoch's last batch may be smaller; otherwise batches that differ may be larger still."""
    counted = [size for data in told if isinstance(size := data.get("segment_bytes"), int)]
    if len(counted) < len(told) or not counted:
        return None
    shapes = {tuple(data.get("shape") or ())[1:] for data in told}
    most = max(max(counted), batch)
    return most if len(shapes) == 1 else int(most * SHARE_ON_TOP)


def queues_lack_room(measured: Measurement) -> bool:
    """They would run out of /dev/shm once they are full, whether or not a short trial filled them."""
    needed, room = measured.shm_needed_bytes, measured.shm_room_bytes
    return needed is not None and room is not None and needed > room


def no_room_text(measured: Measurement) -> str:
    return (
        f"its full queues need up to {bytes_(measured.shm_needed_bytes or 0)} of /dev/shm, which had"
        f" {bytes_(measured.shm_room_bytes or 0)} free"
    )


def queue_lines(measured: Measurement, shm_bytes: int | None) -> list[str]:
    """A slow loader never fills its queues within a window; the first long pause of the training does."""
    needed, batch = measured.shm_needed_bytes, measured.batch_bytes
    if needed is None or batch is None or shm_bytes is None or needed <= shm_bytes:
        return []
    return [
        f"/dev/shm has {bytes_(shm_bytes)}, and full queues of batches of {bytes_(batch)} need up to {bytes_(needed)}:"
        " a pause of the training, such as a validation, may end it"
    ]


def queue_advice(measured: Measurement, shm_bytes: int | None) -> list[Advice]:
    if not queue_lines(measured, shm_bytes):
        return []
    workers, prefetch = (measured.effective_settings.get(name) for name in ("workers", "prefetch_factor"))
    if not isinstance(workers, int) or not isinstance(prefetch, int):
        return []
    free, needed = (shm_bytes or 0) - beside_the_queues(measured), measured.shm_needed_bytes or 0
    return _relaxations(batch_in_shm(measured) or 0, workers, prefetch, max(1, measured.ranks), free, needed)


def shm_refusal(
    history: Sequence[TrialRecord],
    wanted: Mapping[str, Scalar],
    *,
    free_bytes: int | None,
) -> Refusal | None:
    """Before a trial: whether the batches of its full queues would find room in /dev/shm, by what a batch took in the
    study's earlier trials. `wanted`: what is asked, over what the training is set to."""
    # What a refused one says was reckoned from another's, for settings that never ran.
    ran = [one for one in history if one.status is not TrialStatus.REFUSED]
    known = next((one for one in reversed(ran) if one.measurement.batch_bytes), None)
    if known is None or free_bytes is None:
        return None
    settings = {**_unasked(history), **{name: value for name, value in wanted.items() if value is not None}}
    workers, prefetch = settings.get("workers"), settings.get("prefetch_factor")
    if not isinstance(workers, int) or workers < 1:
        return None
    prefetch = prefetch if isinstance(prefetch, int) else USUAL_PREFETCH
    size, then = settings.get("batch_size"), known.measurement.effective_settings.get("batch_size")
    times = size / then if isinstance(size, int) and isinstance(then, int) and then > 0 else 1.0
    batch, whole = round((known.measurement.batch_bytes or 0) * times), batch_in_shm(known.measurement, times) or 0
    ranks = max(1, known.measurement.ranks)
    beside = max(beside_the_queues(one.measurement) for one in ran)
    needed = ranks * needed_shm_bytes(whole, workers, prefetch) + beside
    if needed <= free_bytes:
        return None
    return Refusal(
        needed_bytes=needed,
        batch_bytes=batch,
        batch_shm_bytes=whole,
        detail=(
            f"/dev/shm has {bytes_(free_bytes)} free, and {workers} {'worker' if workers == 1 else 'workers'} with"
            f" prefetch_factor {prefetch} need up to {bytes_(needed)} of it for batches of {bytes_(batch)}: it was not"
            " started"
        ),
        advice=tuple(_relaxations(whole, workers, prefetch, ranks, free_bytes - beside, needed)),
    )


def _relaxations(whole: int, workers: int, prefetch: int, ranks: int, free: int, needed: int) -> list[Advice]:
    lines = []
    fits = [w for w in range(1, workers) if ranks * needed_shm_bytes(whole, w, prefetch) <= free]
    fewer = [p for p in range(1, prefetch) if ranks * needed_shm_bytes(whole, workers, p) <= free]
    if fewer:
        lines.append(_would_fit("prefetch_factor", max(fewer)))
    if fits:
        lines.append(_would_fit("workers", max(fits)))
    larger = f"a /dev/shm that holds {bytes_(needed)} (docker run --shm-size={-(-needed // 2**30)}g)"
    return [*lines, Advice(larger)]


def _would_fit(name: str, value: int) -> Advice:
    return Advice(f"--set {name}={value} would fit", asks={name: value})


def _unasked(history: Sequence[TrialRecord]) -> dict[str, Scalar]:
    """What the training runs with where nothing is turned, as earlier trials saw it."""
    found: dict[str, Scalar] = {}
    for record in history:
        turned = record.asked if record.asked is not None else record.settings
        for name, value in record.measurement.effective_settings.items():
            if name not in turned:
                found.setdefault(name, value)
    return found
