"""A second launch that looks for the ceiling: what it is asked, and how much memory it may take for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vtune.domain.effects import FindCeiling, Scalar
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal
from vtune.execution.observer import Watch
from vtune.telemetry.host import available_ram_bytes

# A minute for all sizes, and the rest of the trial's time for the start, a few real batches and the loader alone.
LADDER_S, SHARE_OF_TRIAL = 60.0, 0.5
# Without a limit of the user's: the machine must stay usable, and its OOM killer asleep.
SHARE_OF_AVAILABLE = 0.8
ORIGIN = "probe:ceiling"


def ceiling_proposal(record: TrialRecord, settings: Mapping[str, Scalar]) -> Proposal:
    return Proposal(
        settings=settings,
        reason=f"as trial {record.trial}, fed from memory: how fast, and how large a batch fits",
        origin=ORIGIN,
    )


def ceiling_asked(record: TrialRecord, watch: Watch) -> FindCeiling | None:
    """After an ordinary trial, which has seen what loader feeds the steps; None where none did."""
    train = record.evidence.get("train_loader")
    key = train.get("key") if isinstance(train, dict) else None
    if not isinstance(key, str):
        return None
    available = available_ram_bytes()
    room = [] if available is None else [int(SHARE_OF_AVAILABLE * available)]
    limits = [] if watch.ram_limit_bytes is None else [watch.ram_limit_bytes]
    return FindCeiling(
        loader=key,
        ladder_s=min(LADDER_S, SHARE_OF_TRIAL * watch.window.trial_time_s),
        ram_bytes=min([*room, *limits], default=None),
    )


def ceiling_watch(asked: FindCeiling, watch: Watch) -> Watch:
    by_user = asked.ram_bytes is not None and asked.ram_bytes == watch.ram_limit_bytes
    return replace(watch, ceiling=True, ram_limit_bytes=asked.ram_bytes, limit_by_user=by_user)
