"""Without a device the main process does everything: what of its time is neither the model nor the optimizer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vtune.analysis.pauses import paused
from vtune.domain.record import Measurement

# Where that time goes: on the batch before the model has it, between the model and its backward, or in no stage at all
# (logging, metrics, an average of weights).
Part = Literal["prepare", "loss", "between"]


def with_outside(measured: Measurement) -> Measurement:
    """`measured` must have its pauses: a validation is no work of the steps."""
    parts, wait = outside(measured), measured.data_wait_fraction
    if parts is None or wait is None:
        return measured
    share = min(1.0, sum(parts.seconds.values()) / parts.own_s) if parts.own_s > 0 else 0.0
    return replace(measured, outside_fraction=max(0.0, 1 - wait - paused(measured)) * share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Of one step's own time."""

    own_s: float
    seconds: dict[Part, float]

    @property
    def longest(self) -> Part:
        return max(self.seconds, key=lambda part: self.seconds[part])


def outside(measured: Measurement) -> Outside | None:
    has_device = bool(measured.gpus) or measured.device_step_s is not None
    after_s = measured.after_step_s
    if has_device or not measured.stages or after_s is None:
        return None
    prepare_s, loss_s = (
        sum(stage.host_s for stage in measured.stages if stage.stage == name) for name in ("prepare", "loss")
    )
    return Outside(
        own_s=sum(stage.host_s for stage in measured.stages) + after_s,
        seconds={"prepare": prepare_s, "loss": loss_s, "between": after_s},
    )
