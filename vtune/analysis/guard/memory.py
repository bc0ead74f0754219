"""Memory of a full run, projected to its planned end; a breach is only predicted when it is sure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vtune.analysis.growth_leak import find_leak
from vtune.analysis.growth_series import Level

# What will happen within this time is acted on at once; all else has to look the same some minutes later.
IMMINENT_S, AGAIN_S = 120.0, 180.0
LEAST_SEEN_S, AHEAD = 8.0, 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    t_s: float
    step: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    what: Literal["ram", "shm", "vram"]
    bytes_per_step: float
    used_bytes: int
    limit_bytes: int
    # At the planned end, at least, or at that of the first epoch where nobody knows what comes after it; None where
    # neither end is known.
    at_end_bytes: int | None
    of_epoch: bool = False
    in_s: float
    imminent: bool


def predicted(
    what: Literal["ram", "shm", "vram"],
    readings: Sequence[Reading],
    *,
    used_bytes: int | None,
    limit_bytes: int | None,
    steps_at_end: int | None,
    epoch_steps: int | None = None,
) -> Breach | None:
    """`readings` show the growth and may count some pages twice; `used_bytes` counts each once, and so does the limit.
    None unless even the least growth that they allow passes the limit before the run ends. A cache is full when every
    sample was there once: within its first epoch growth is only sure until that epoch's end."""
    if limit_bytes is None or len(readings) < 2:
        return None
    last = readings[-1]
    leak = find_leak([Level(step=float(one.step), bytes=one.bytes) for one in readings])
    seconds, steps = last.t_s - readings[0].t_s, last.step - readings[0].step
    if leak is None or leak.ci95[0] <= 0 or seconds <= 0 or steps <= 0:
        return None
    used = last.bytes if used_bytes is None else used_bytes
    steps_to_limit = max(0.0, (limit_bytes - used) / leak.ci95[0])
    in_s = steps_to_limit * seconds / steps
    # What filled in ten seconds may stop in the eleventh: nobody looks further ahead than some times the time seen.
    imminent = in_s < IMMINENT_S and in_s < AHEAD * seconds and seconds >= LEAST_SEEN_S
    of_epoch = epoch_steps is not None and last.step <= epoch_steps and epoch_steps < (steps_at_end or epoch_steps + 1)
    steps_at_end = epoch_steps if of_epoch else steps_at_end
    left = None if steps_at_end is None else max(0, steps_at_end - last.step)
    if left is None and not imminent:
        return None
    if left is not None and steps_to_limit >= left:
        return None
    return Breach(
        what=what,
        bytes_per_step=leak.bytes_per_step,
        used_bytes=used,
        limit_bytes=limit_bytes,
        at_end_bytes=None if left is None else int(used + leak.ci95[0] * left),
        of_epoch=of_epoch,
        in_s=in_s,
        imminent=imminent,
    )


class Suspicion:
    """Whether a breach that is predicted now was predicted minutes ago as well."""

    def __init__(self) -> None:
        self._since_s: float | None = None

    def confirmed(self, breach: Breach | None, now_s: float) -> bool:
        if breach is None:
            self._since_s = None
            return False
        if self._since_s is None:
            self._since_s = now_s
        return breach.imminent or now_s - self._since_s >= AGAIN_S


def thinned(readings: Sequence[Reading], most: int = 240) -> list[Reading]:
    """Every second one, once there are too many: a leak shows over the whole run and not in its last minute."""
    return list(readings) if len(readings) <= most else list(readings)[::2]
