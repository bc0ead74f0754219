"""What a trial took of its devices' memory, as rows for a panel."""

from __future__ import annotations

from vtune.domain.numbers import bytes_
from vtune.domain.record import Measurement


def vram_rows(measured: Measurement) -> list[str]:
    """As the training's own allocator counted; what the device held besides stands in its GPU's row."""
    lines = []
    allocated, reserved = measured.vram_allocated_peak_bytes, measured.vram_reserved_peak_bytes
    if allocated is not None:
        held = f", {bytes_(reserved)} reserved" if reserved is not None else ""
        lines.append(f"{bytes_(allocated)} allocated{held} at the most, by the training's own allocator")
    stages = [f"{one.stage} {bytes_(one.peak_bytes)}" for one in measured.stages if one.peak_bytes is not None]
    if stages:
        lines.append(f"by stage: {', '.join(stages)}")
    if measured.vram_validation_peak_bytes is not None:
        lines.append(f"{bytes_(measured.vram_validation_peak_bytes)} allocated at the most in validation")
    if measured.alloc_retries:
        lines.append(f"memory was given back {measured.alloc_retries} times after warm-up: there is no room left")
    return lines
