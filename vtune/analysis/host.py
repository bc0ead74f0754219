"""Without a device the main process does everything: what of its time is neither the model nor the optimizer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vtune.domain.record import Measurement


def with_outside(measured: Measurement) -> Measurement:
    parts, wait = outside(measured), measured.data_wait_fraction
    if parts is None or wait is None:
        return measured
    share = min(1.0, (parts.loss_s + parts.between_s) / parts.own_s) if parts.own_s > 0 else 0.0
    return replace(measured, outside_fraction=(1 - wait) * share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Of one step's own time."""

    own_s: float
    # Between the model and its backward.
    loss_s: float
    # In no stage at all: logging, metrics, an average of weights.
    between_s: float


def outside(measured: Measurement) -> Outside | None:
    has_device = bool(measured.gpus) or measured.device_step_s is not None
    after_s = measured.after_step_s
    if has_device or not measured.stages or after_s is None:
        return None
    loss_s = sum(stage.host_s for stage in measured.stages if stage.stage == "loss")
    own_s = sum(stage.host_s for stage in measured.stages) + after_s
    return Outside(own_s=own_s, loss_s=loss_s, between_s=after_s)
