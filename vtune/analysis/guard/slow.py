"""Why a full run is slower than its trial promised, as far as the machine tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from vtune.domain.events import TelemetrySample
from vtune.domain.numbers import bytes_
from vtune.domain.record import Measurement

Cause = Literal["neighbour", "clocks", "memory", "storage", "unknown"]
# Cores that others keep busy beyond those in the trial; of a device's time, in percent.
OTHERS_CORES, OTHERS_UTIL = 0.5, 10.0
THROTTLED_SHARE = 0.3
# Of the memory of the machine: below it the kernel takes back what the run wants to read again.
PRESSED = 0.05
COLD_SHARE = 0.3


def why_slow(samples: Sequence[TelemetrySample], trial: Measurement, ram_bytes: int | None) -> tuple[Cause, str]:
    """Of the samples of the slow window."""
    others = [one.others_cores for one in samples if one.others_cores is not None]
    if others and (more := sum(others) / len(others) - (trial.others_cores or 0.0)) > OTHERS_CORES:
        return "neighbour", f"other programs keep {more:.1f} more cores busy than in the trial"
    util = [gpu.others_util_percent for one in samples for gpu in one.gpus if gpu.others_util_percent is not None]
    if util and sum(util) / len(util) > OTHERS_UTIL:
        return "neighbour", f"another program uses the GPU, {sum(util) / len(util):.0f} % of its time"
    looks = [gpu for one in samples for gpu in one.gpus]
    throttled = [gpu.throttled_by for gpu in looks if gpu.throttled_by]
    if looks and len(throttled) > THROTTLED_SHARE * len(looks):
        why = ", ".join(sorted({name for names in throttled for name in names}))
        return "clocks", f"the GPU's clocks are held down ({why})"
    free = [one.ram_available_bytes for one in samples if one.ram_available_bytes is not None]
    if free and ram_bytes and min(free) < PRESSED * ram_bytes:
        return "memory", f"the machine had only {bytes_(min(free))} of RAM left"
    cold = _cold_share(samples)
    if cold is not None and cold > COLD_SHARE and cold > 2 * (trial.cold_fraction or 0.0):
        then = "unknown" if trial.cold_fraction is None else f"{trial.cold_fraction:.0%}"
        return "storage", f"{cold:.0%} of what it reads comes from the disk itself (in the trial: {then})"
    return "unknown", "nothing is to be seen on this machine that was not there in the trial as well"


def _cold_share(samples: Sequence[TelemetrySample]) -> float | None:
    if len(samples) < 2:
        return None
    before = {one.pid: one for one in samples[0].processes}
    requested = read = 0
    for after in samples[-1].processes:
        then = before.get(after.pid)
        if then is None or None in (then.requested_bytes, after.requested_bytes, then.read_bytes, after.read_bytes):
            continue
        requested += (after.requested_bytes or 0) - (then.requested_bytes or 0)
        read += (after.read_bytes or 0) - (then.read_bytes or 0)
    return read / requested if requested > 0 else None
