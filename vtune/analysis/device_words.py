"""What was seen of the devices, in sentences for the report."""

from __future__ import annotations

from vtune.domain.machine_use import GpuUse
from vtune.domain.numbers import bytes_, seconds
from vtune.domain.record import Measurement

# Clocks that were held down in fewer of the samples than this explain nothing.
OFTEN = 0.1
# Shares of the time that are worth a sentence.
WORTH_SAYING = 0.02
# The reserve of the allocator beyond what is used: the limit is met by what is reserved.
SLACK = 1.3


def hidden_host(measured: Measurement) -> bool:
    """There is a device, but nobody could see whether it computed or idled within a step."""
    return bool(measured.gpus or measured.device_step_s is not None) and measured.host_fraction is None


def device_lines(measured: Measurement) -> list[str]:
    lines = [*_timeline(measured), *_memory(measured)]
    for gpu in measured.gpus:
        lines += _one(gpu)
    if measured.skipped_steps:
        lines.append(f"{measured.skipped_steps} optimizer steps were left out by the gradient scaler (infinities)")
    return lines


def _timeline(measured: Measurement) -> list[str]:
    lines = []
    if measured.device_step_s is not None:
        gap = measured.device_gap_s
        idle = f", and {seconds(gap)} more until the next" if gap else ""
        lines.append(
            f"on the device's clock {seconds(measured.device_step_s)} pass from a batch's coming to the end of its"
            f" step, its own idling included{idle}"
        )
    for share, what in (
        (measured.host_fraction, "for the main process"),
        (measured.transfer_fraction, "for its batch"),
    ):
        if share is not None and share >= WORTH_SAYING:
            lines.append(f"the device waits {what} {share:.0%} of the time")
    if measured.stages:
        parts = ", ".join(
            f"{'before the model' if s.stage == 'prepare' else s.stage}"
            f" {seconds(s.host_s if s.device_s is None else s.device_s)}"
            for s in measured.stages
        )
        lines.append(f"of the steps looked at closely: {parts}")
    return lines


def _memory(measured: Measurement) -> list[str]:
    lines = []
    reserved, allocated = measured.vram_reserved_peak_bytes, measured.vram_allocated_peak_bytes
    if reserved and allocated and reserved > SLACK * allocated:
        lines.append(f"the allocator holds {bytes_(reserved)} of VRAM, of which {bytes_(allocated)} were ever in use")
    peaks = [stage for stage in measured.stages if stage.peak_bytes is not None]
    if peaks:
        largest = max(peaks, key=lambda stage: stage.peak_bytes or 0)
        most = bytes_(largest.peak_bytes)
        lines.append(f"tensors fill most VRAM in the {largest.stage} stage: {most}, the context and its reserves apart")
    if measured.alloc_retries:
        lines.append(
            f"the allocator ran out of room {measured.alloc_retries} times and had to start over: VRAM is full"
        )
    return lines


def _one(gpu: GpuUse) -> list[str]:
    name, lines = f"GPU {gpu.index}", []
    for reason, share in gpu.throttled.items():
        if share >= OFTEN:
            lines.append(f"{name}: clocks held down by {reason} in {share:.0%} of the samples")
    return lines
