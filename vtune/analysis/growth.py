"""Memory that is going to happen: what grew over the window, and what it comes to in the planned run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from vtune.analysis.growth_copies import Copies, cap_bytes, find_copies
from vtune.analysis.growth_leak import LEAST_GROWTH_BYTES, LEAST_LEVELS, Leak, find_leak, least_that_shows
from vtune.analysis.growth_series import (
    Level,
    TreeLevel,
    held_alone,
    held_beside,
    in_shm,
    not_shared,
    ready_bytes,
    step_at,
    tree_levels,
)
from vtune.analysis.roles import Roles, TrainPass
from vtune.analysis.window import StepWindow
from vtune.domain.events import BatchLoaded, Fact, TelemetrySample
from vtune.domain.experiment import PlannedRun
from vtune.domain.machine_use import RamGrowth
from vtune.domain.record import Measurement

# Of a window in which memory grows: enough to tell a leak, those left out in which a worker was missing.
ENOUGH_LOOKS = LEAST_LEVELS + 4
# Two launches of the same training hold so much more or less: imports, arenas, what the allocator gives back.
LAUNCHES_DIFFER = 0.03
Who = Literal["main", "workers", "others", "shared"]
Until = Literal["run", "epoch"] | None
TOO_SHORT_LIVED = "the memory of the loader's workers grows, and they end with their epoch before it can be told why"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLength:
    """In optimizer steps, as far as it is known."""

    epoch: float | None
    run: float | None

    @property
    def sure(self) -> tuple[float | None, Until]:
        """Of a run of whose epochs nobody knows the number, one."""
        if self.run is not None:
            return self.run, "run"
        return self.epoch, "epoch" if self.epoch is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Growing:
    """One growth, and the step of the run at which it is over."""

    what: RamGrowth
    law: Leak | Copies
    # Of several ranks, each grows alike.
    times: int
    low_bytes: float = 0.0
    high_bytes: float = 0.0

    def since(self, last: float, level: TreeLevel) -> float:
        """What came from that look on to the end of the window."""
        if isinstance(self.law, Leak):
            # Shared memory is in the dear readings only.
            at = level.read_step if self.what.who == "shared" else level.step
            return self.times * self.law.bytes_per_step * (last - at)
        return -self.times * self.law.to_come(level.read_step - last)[0]


def run_length(measured: Measurement, planned: PlannedRun, batch_factor: float) -> RunLength:
    epoch, batches_in_one = None, 1.0
    if planned.iterations_per_epoch and not planned.samples_per_epoch:
        # An epoch keeps its iterations, and with a larger batch sees more samples, until somebody rescales them: its
        # workers live as long, and gather as much. The run ends with as many samples as planned.
        epoch, batches_in_one = float(planned.iterations_per_epoch), batch_factor
    elif measured.samples_per_epoch and measured.samples_per_step:
        epoch = measured.samples_per_epoch / (measured.effective_batch or measured.samples_per_step)
    run = epoch * planned.epochs / batches_in_one if epoch is not None and planned.epochs else None
    return RunLength(epoch=epoch, run=run)


def is_undecided(telemetry: Sequence[TelemetrySample], roles: Roles, begun_s: float) -> bool:
    """Whether memory has grown since then, too short a time for anyone to say why: steps of milliseconds fill a window
    within a few looks at it."""
    window = [s for s in telemetry if s.t_s >= begun_s and s.processes]
    if len(window) >= ENOUGH_LOOKS:
        return False
    at = step_at(roles)
    born = _longest_lived(roles)
    groups = [roles.ranks, *([born.worker_pids] if born is not None else [])]
    held = [[level.bytes for level in held_alone(window, pids, at)] for pids in groups]
    return any(levels[-1] - levels[0] >= LEAST_GROWTH_BYTES for levels in held if levels)


def with_growth(
    measured: Measurement,
    *,
    roles: Roles,
    telemetry: Sequence[TelemetrySample],
    facts: Sequence[Fact],
    regular: Sequence[StepWindow],
    length: RunLength,
    loaded: Sequence[BatchLoaded] = (),
) -> Measurement:
    if not regular or measured.ram_peak_bytes is None:
        return measured
    at = step_at(roles)
    last = float(len(roles.steps))
    # After its last step a training takes itself apart: that is no part of a run.
    begun_s, ended_s = regular[0].started_s, roles.steps[-1].ended_s
    window = [s for s in telemetry if begun_s <= s.t_s <= ended_s and s.processes]
    growing = []
    end, until = length.sure
    # Those that are pinned have left shared memory.
    ready = ready_bytes(roles, loaded, None if measured.pinned_bytes else measured.batch_bytes)
    asked: tuple[tuple[Who, list[Level]], ...] = (
        ("main", held_alone(window, roles.ranks, at)),
        ("others", held_beside(window, {*roles.ranks, *_workers_of(roles)}, at)),
        ("shared", in_shm(window, at, ready)),
    )
    for who, levels in asked:
        leak = find_leak(levels)
        if leak is not None and (who != "shared" or _is_the_trees(leak, window, at)):
            growing.append(_linear(leak, who, _left(end, last), until, _until_known(length, last), times=1))
    if roles.workers:
        growing += _of_workers(window, facts, roles, length, last)
        if not any(one.what.who == "workers" for one in growing) and _end_too_soon(window, roles):
            measured = replace(measured, unknown={**measured.unknown, "ram_growth": TOO_SHORT_LIVED})
    born = _longest_lived(roles)
    measured = replace(measured, ram_unseen_bytes_per_step=_unseen(window, at, roles, born, growing))
    born_step = None if born is None or born.begun_s is None else at(born.begun_s)
    projected = _projected(measured, growing, tree_levels(window, at), last, born_step)
    return _with_unseen(projected, _left(length.run, last))


def _unseen(
    window: Sequence[TelemetrySample],
    at: Callable[[float], float],
    roles: Roles,
    born: TrainPass | None,
    growing: Sequence[_Growing],
) -> float | None:
    """So much a step would not have been called a leak, where none was."""
    leaking = {one.what.who for one in growing if one.what.kind == "leak"}
    asked = [] if "main" in leaking else [roles.ranks]
    if born is not None and "workers" not in leaking:
        asked.append(born.worker_pids)
    least = [least_that_shows(held_alone(window, pids, at)) for pids in asked]
    return max((one for one in least if one is not None), default=None)


def _with_unseen(measured: Measurement, left: float | None) -> Measurement:
    """What nobody saw may be there: over a run a thousand times as long it may be more than all that was seen."""
    unseen, interval = measured.ram_unseen_bytes_per_step, measured.ram_projected_ci95
    if unseen is None or interval is None:
        return measured
    if left is None:
        return replace(measured, ram_projected_ci95=None)
    return replace(measured, ram_projected_ci95=(interval[0], interval[1] + round(unseen * left)))


def _is_the_trees(leak: Leak, window: Sequence[TelemetrySample], at: Callable[[float], float]) -> bool:
    """/dev/shm is everybody's: what a neighbour fills it with is in no reading of the tree."""
    read = [(at(s.t_s), s.ram_bytes) for s in window if s.ram_bytes is not None]
    if len(read) < 2:
        return False
    (first, before), (last, after) = read[0], read[-1]
    return after - before >= leak.bytes_per_step * (last - first) / 2 > 0


def _workers_of(roles: Roles) -> set[int]:
    return {pid for one in roles.passes for pid in one.worker_pids} | {*roles.peers_worker_pids}


def _end_too_soon(window: Sequence[TelemetrySample], roles: Roles) -> bool:
    """Workers whose memory grows beyond their first batches, and who live for too few looks to tell why."""
    born = _longest_lived(roles)
    if born is None or born.settings.get("persistent_workers") is True:
        return False
    held = [level.bytes for level in held_alone(window, born.worker_pids, step_at(roles))]
    return 3 <= len(held) < LEAST_LEVELS and held[-1] - held[1] >= LEAST_GROWTH_BYTES


def _of_workers(
    window: Sequence[TelemetrySample], facts: Sequence[Fact], roles: Roles, length: RunLength, last: float
) -> list[_Growing]:
    at = step_at(roles)
    times = max(1, len(roles.ranks))
    born = _longest_lived(roles)
    if born is None:
        return []
    first = at(born.begun_s) if born.begun_s is not None else 0.0
    own = [s for s in window if {p.pid for p in s.processes} >= set(born.worker_pids)]
    # Workers that end with their epoch take along what they have gathered.
    lives_on = born.settings.get("persistent_workers") is True
    until: Until
    end, until = length.sure if lives_on else (length.epoch, "epoch" if length.epoch is not None else None)
    left = None if end is None else max(0.0, end - (last - (first if not lives_on else 0.0)))
    found = []
    leak = find_leak(held_alone(own, born.worker_pids, at))
    if leak is not None:
        found.append(_linear(leak, "workers", left, until, _until_known(length, last), times=times))
    cap = _cap_of(facts, roles, born)
    levels = not_shared(own, born.worker_pids, at)
    copies = find_copies(levels, first, cap) if cap is not None else None
    if copies is not None:
        found.append(_saturating(copies, left, until, times=times))
    return found


def _until_known(length: RunLength, last: float) -> float:
    """A cache is full when every sample was there once. Until an epoch's end was seen, nobody can tell it from a leak,
    and only so many steps of it are sure."""
    return math.inf if length.epoch is None or last > length.epoch else length.epoch - last


def _linear(leak: Leak, who: Who, left: float | None, until: Until, sure: float, *, times: int) -> _Growing:
    slope, (low, high) = times * leak.bytes_per_step, (times * bound for bound in leak.ci95)
    what = RamGrowth(
        kind="leak",
        who=who,
        bytes_per_step=slope,
        bytes_per_step_ci95=(low, high),
        steps=None if left is None else round(left),
        to_come_bytes=None if left is None else round(slope * left),
        until=until,
    )
    if left is None:
        return _Growing(what=what, law=leak, times=times)
    least = max(0.0, low * min(left, sure))
    return _Growing(what=what, law=leak, times=times, low_bytes=least, high_bytes=high * left)


def _saturating(copies: Copies, left: float | None, until: Until, *, times: int) -> _Growing:
    # Of a run whose length nobody knows, the most that it can come to.
    come, low, high = (times * value for value in copies.to_come(math.inf if left is None else left))
    low_rate, high_rate = copies.bytes_per_step_ci95
    what = RamGrowth(
        kind="copy_on_write",
        who="workers",
        bytes_per_step=times * copies.bytes_per_step,
        bytes_per_step_ci95=(times * low_rate, times * high_rate),
        cap_bytes=times * copies.left_bytes,
        steps=None if left is None else round(left),
        to_come_bytes=round(come),
        until=until,
    )
    return _Growing(what=what, law=copies, times=times, low_bytes=low, high_bytes=high)


def _projected(
    measured: Measurement,
    growing: Sequence[_Growing],
    levels: Sequence[TreeLevel],
    last: float,
    born_step: float | None,
) -> Measurement:
    peak = measured.ram_peak_bytes or 0
    if born_step is not None and any(one.what.who == "workers" for one in growing):
        # Before that others were at work, whose growth went with them.
        levels = [one for one in levels if one.read_step >= born_step]
    # Every look in the window, brought to its end: what batches come and go on top is in the highest of them.
    brought = [one.bytes + sum(each.since(last, one) for each in growing) for one in levels]
    level = max(brought, default=peak)
    fixed = replace(measured, ram_growth=tuple(one.what for one in growing))
    if any(one.what.to_come_bytes is None for one in growing):
        because = "memory leaks, and how many steps the run has was not found (vtune.run says it)"
        return replace(fixed, unknown={**measured.unknown, "ram_projected_bytes": because})
    to_come = sum(one.what.to_come_bytes or 0 for one in growing)
    # Queues that a slow loader never filled will be full after the first long pause.
    queue = 0
    if measured.shm_needed_bytes is not None and measured.shm_peak_bytes is not None:
        queue = max(0, measured.shm_needed_bytes - measured.shm_peak_bytes)
    # What comes and goes: the highest look may have been a rare one, or have missed the top by as much.
    usual = median(brought) if brought else peak
    low = usual + sum(one.low_bytes for one in growing)
    high = max(level + (level - usual) + sum(one.high_bytes for one in growing), peak) + queue
    return replace(
        fixed,
        ram_projected_bytes=round(max(peak, level + to_come) + queue),
        ram_projected_ci95=(round(low * (1 - LAUNCHES_DIFFER)), round(high * (1 + LAUNCHES_DIFFER))),
    )


def _longest_lived(roles: Roles) -> TrainPass | None:
    """The pass whose workers were there for most of the steps; of persistent workers, the one that started them."""
    lived: dict[tuple[int, ...], int] = {}
    by_number = {one.number: one for one in roles.passes}
    for batch in roles.batches:
        one = by_number.get(batch.pass_number)
        if one is not None and one.worker_pids:
            lived[one.worker_pids] = lived.get(one.worker_pids, 0) + 1
    if not lived:
        return None
    pids = max(lived, key=lambda pids: lived[pids])
    return next(one for one in roles.passes if one.worker_pids == pids)


def _cap_of(facts: Sequence[Fact], roles: Roles, born: TrainPass) -> int | None:
    for fact in facts:
        if fact.name == "pass" and fact.pid == roles.pid and fact.data.get("pass") == born.number:
            return cap_bytes(fact)
    return None


def _left(steps: float | None, last: float) -> float | None:
    return None if steps is None else max(0.0, steps - last)
