"""Memory of a full run, projected: a breach is told when it is sure, or when waiting would leave no time to save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vtune.analysis.growth_leak import find_leak
from vtune.analysis.growth_series import Level
from vtune.analysis.guard.late_leak import find_late_leak, thinned

# Whatever is further away has to look the same some minutes later before it is worth a word.
AGAIN_S = 180.0
# Growth that would fill the rest within so long is looked at more often; seen over so long.
HURRIED_S, HURRIED_OVER_S = 60.0, 3.0
THINNED_EACH = 32
# Readings that show a slope over the whole run.
ENOUGH = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    t_s: float
    step: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    what: Literal["ram", "shm", "vram"]
    bytes_per_s: float
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
    save_s: float = 160.0,
) -> Breach | None:
    """`readings` show the growth and may count some pages twice; `used_bytes` counts each once, and so does the limit.
    Imminent is a breach that has to be acted on now, since saving takes `save_s`. Of one further away, even the least
    growth that all the readings allow has to pass the limit before the run ends. A cache is full when every sample was
    there once: within its first epoch growth is only sure until that epoch's end."""
    if limit_bytes is None or len(readings) < 2:
        return None
    last = readings[-1]
    used = last.bytes if used_bytes is None else used_bytes
    room = max(0, limit_bytes - used)
    of_epoch = epoch_steps is not None and last.step <= epoch_steps and epoch_steps < (steps_at_end or epoch_steps + 1)
    steps_at_end = epoch_steps if of_epoch else steps_at_end
    left = None if steps_at_end is None else max(0, steps_at_end - last.step)

    late = find_late_leak([one.t_s for one in readings], [one.bytes for one in readings], room, save_s)
    if late is not None:
        begun = next(one for one in readings if one.t_s >= last.t_s - late.seen_s)
        steps_per_s = (last.step - begun.step) / late.seen_s
        bytes_per_s, in_s, imminent = late.bytes_per_s, late.in_s, True
    elif left is not None and last.t_s > readings[0].t_s:
        some = readings[:: 1 + len(readings) // ENOUGH]
        leak = find_leak([Level(step=float(one.step), bytes=one.bytes) for one in some])
        if leak is None or leak.ci95[0] <= 0:
            return None
        steps_per_s = (last.step - readings[0].step) / (last.t_s - readings[0].t_s)
        bytes_per_s, imminent = leak.ci95[0] * steps_per_s, False
        in_s = room / bytes_per_s
    else:
        return None
    if left is not None and in_s * steps_per_s >= left:
        return None
    left_s = None if left is None or steps_per_s == 0 else left / steps_per_s
    return Breach(
        what=what,
        bytes_per_s=bytes_per_s,
        used_bytes=used,
        limit_bytes=limit_bytes,
        at_end_bytes=None if left_s is None else int(used + bytes_per_s * left_s),
        of_epoch=of_epoch,
        in_s=in_s,
        imminent=imminent,
    )


def is_hurried(readings: Sequence[Reading], room: int) -> bool:
    """Whether the next second is too far away for the next look."""
    if len(readings) < 2:
        return False
    last = readings[-1]
    first = next(one for one in readings[::-1] if one.t_s <= last.t_s - HURRIED_OVER_S or one is readings[0])
    seconds = last.t_s - first.t_s
    return seconds > 0 and (last.bytes - first.bytes) / seconds * HURRIED_S > room


class Suspicion:
    """Whether a breach that is predicted now was predicted before as well: at the last look, or minutes ago."""

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._was_imminent = False

    def confirmed(self, breach: Breach | None, now_s: float) -> bool:
        was_imminent, self._was_imminent = self._was_imminent, breach is not None and breach.imminent
        if breach is None:
            self._since_s = None
            return False
        if self._since_s is None:
            self._since_s = now_s
        return (breach.imminent and was_imminent) or now_s - self._since_s >= AGAIN_S


class Readings:
    """All of late, and ever fewer of before: for runs of days."""

    def __init__(self) -> None:
        self.all: list[Reading] = []
        self._since = 0

    def add(self, reading: Reading) -> None:
        self.all.append(reading)
        self._since += 1
        if self._since == THINNED_EACH:
            self._since = 0
            self.all = [self.all[at] for at in thinned([one.t_s for one in self.all])]
