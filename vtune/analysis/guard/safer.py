"""The next safer settings that were measured: what a run goes on with when its own do not last."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from vtune.analysis.comparable import has_rate
from vtune.domain.effects import Scalar
from vtune.domain.launch import Trouble
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus

# Clearly less of what ran out; a tenth is more than launches differ by.
CLEARLY_LESS = 0.9
BATCH, ACCUMULATE = "batch_size", "accumulate_steps"
Settings = Mapping[str, Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class Safer:
    record: TrialRecord
    # What has to be turned to run like it, accumulation included.
    settings: Settings


def next_safer(
    records: Sequence[TrialRecord],
    now: TrialRecord,
    settings_now: Settings,
    trouble: Trouble,
    *,
    turned: Callable[[TrialRecord], Settings],
    turns_same: Callable[[str], bool],
    can_accumulate: bool,
    but: Collection[int] = (),
) -> Safer | None:
    """The fastest of those that need clearly less; `but`: trials that do not fit, or did not last already.
    `turns_same`: whether a knob leaves the training's mathematics alone; `settings_now`: what runs now, in full."""
    found: list[Safer] = []
    for record in records:
        if record.trial in but or record.trial == now.trial or not _is_candidate(record):
            continue
        if not _needs_less(record, now, settings_now, trouble):
            continue
        asked = _same_training(turned(record), record.settings, settings_now, turns_same, can_accumulate)
        if asked is not None:
            found.append(Safer(record=record, settings=asked))
    return max(found, key=lambda one: one.record.measurement.samples_per_s or 0.0, default=None)


def _is_candidate(record: TrialRecord) -> bool:
    return (
        record.status is TrialStatus.COMPLETED
        and record.origin != "launch"
        and has_rate(record)
        and not record.measurement.fed_from_stock
    )


def _needs_less(record: TrialRecord, now: TrialRecord, settings_now: Settings, trouble: Trouble) -> bool:
    if trouble == "workers":
        fewer, many = record.settings.get("workers"), settings_now.get("workers")
        return isinstance(fewer, int) and isinstance(many, int) and fewer < many
    pairs = {
        "ram": (_ram(record), _ram(now)),
        "shm": (_shm(record), _shm(now)),
        "vram": (record.measurement.vram_peak_bytes, now.measurement.vram_peak_bytes),
    }
    needs, needed = pairs[trouble]
    return needs is not None and needed is not None and needs < CLEARLY_LESS * needed


def _ram(record: TrialRecord) -> int | None:
    return record.measurement.ram_projected_bytes or record.measurement.ram_peak_bytes


def _shm(record: TrialRecord) -> int | None:
    return record.measurement.shm_needed_bytes or record.measurement.shm_peak_bytes


def _same_training(
    asked: Settings, ran: Settings, now: Settings, turns_same: Callable[[str], bool], can_accumulate: bool
) -> dict[str, Scalar] | None:
    """As it has to be turned to stay the same training; None where it cannot."""
    others = {name for name in {*ran, *now} if name not in (BATCH, ACCUMULATE) and not turns_same(name)}
    if any(name in ran and name in now and ran[name] != now[name] for name in others):
        return None
    settings = dict(asked)
    batch, batch_now = ran.get(BATCH), now.get(BATCH)
    if not isinstance(batch, int) or not isinstance(batch_now, int):
        return settings if batch == batch_now and ran.get(ACCUMULATE) == now.get(ACCUMULATE) else None
    accumulate, accumulate_now = ran.get(ACCUMULATE, 1), now.get(ACCUMULATE, 1)
    if not isinstance(accumulate, int) or not isinstance(accumulate_now, int):
        return None
    if batch * accumulate == batch_now * accumulate_now:
        return settings
    if batch > batch_now or not can_accumulate or batch_now * accumulate_now % batch:
        return None
    return {**settings, ACCUMULATE: batch_now * accumulate_now // batch}
