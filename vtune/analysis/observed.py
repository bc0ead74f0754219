"""A trial's events, as they are measured and judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vtune.analysis.roles import Roles
from vtune.domain.events import (
    Backward,
    BatchDelivered,
    BatchLoaded,
    DeviceStepped,
    Fact,
    OptimizerStepped,
    StageEnded,
    TelemetrySample,
)
from vtune.domain.machine import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The lists may still be growing."""

    roles: Roles | None
    loaded: Sequence[BatchLoaded]
    delivered: Sequence[BatchDelivered]
    facts: Sequence[Fact]
    telemetry: Sequence[TelemetrySample]
    started_s: float | None
    device_steps: Sequence[DeviceStepped] = ()
    stages: Sequence[StageEnded] = ()
    gpus: Sequence[Gpu] = ()
    # Of all processes: which of the batches that were delivered each step used.
    steps: Sequence[OptimizerStepped] = ()
    backwards: Sequence[Backward] = ()
