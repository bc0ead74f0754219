"""Memory over a trial's steps: which sample belongs to which step, and whose memory it is."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from vtune.analysis.roles import Roles
from vtune.domain.events import BatchLoaded, TelemetrySample


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    # Between two steps it is a fraction.
    step: float
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLevel:
    """Of the whole tree, each page once."""

    step: float
    # Of the dear reading that it rests on: what was copied on write since then is not in it.
    read_step: float
    bytes: int


def step_at(roles: Roles) -> Callable[[float], float]:
    """Steps that had ended by a time."""
    ends = np.asarray([step.ended_s for step in roles.steps])
    numbers = np.arange(1, len(ends) + 1)
    return lambda t_s: float(np.interp(t_s, ends, numbers, left=0))


def held_alone(samples: Sequence[TelemetrySample], pids: Collection[int], at: Callable[[float], float]) -> list[Level]:
    """What the processes hold of no file, where a sample has all of them."""
    levels = []
    for sample in samples:
        held = {p.pid: p.anon_bytes for p in sample.processes if p.pid in pids and p.anon_bytes is not None}
        if held and len(held) == len(pids):
            levels.append(Level(step=at(sample.t_s), bytes=sum(held.values())))
    return levels


def held_beside(
    samples: Sequence[TelemetrySample], known: Collection[int], at: Callable[[float], float]
) -> list[Level]:
    """What the tree's other processes hold, those that are there all the time: the training started them."""
    there = [{p.pid for p in sample.processes if p.anon_bytes is not None} for sample in samples]
    beside = set.intersection(*there) - {*known} if there else set()
    return held_alone(samples, beside, at) if beside else []


def in_shm(
    samples: Sequence[TelemetrySample], at: Callable[[float], float], ready_bytes: Callable[[float], int]
) -> list[Level]:
    """Of the machine: tensors that are kept in shared memory show in no process's own. Without the batches that lie
    ready: a queue that fills is full one day."""
    return [
        Level(step=at(s.t_s), bytes=s.shm_used_bytes - ready_bytes(s.t_s))
        for s in samples
        if s.shm_used_bytes is not None
    ]


def ready_bytes(roles: Roles, loaded: Sequence[BatchLoaded], batch_bytes: int | None) -> Callable[[float], int]:
    """Of batches that workers have made and the training has not taken, at a time."""
    passes = [one for one in roles.passes if one.begun_s is not None and one.worker_pids] if batch_bytes else []
    begins = [one.begun_s or 0.0 for one in passes]
    finished: dict[tuple[int, int], list[float]] = defaultdict(list)
    for load in loaded:
        finished[load.pid, load.resume].append(load.finished_s)
    returned: dict[int, list[float]] = defaultdict(list)
    for batch in roles.batches:
        returned[batch.pass_number].append(batch.returned_s)
    made = [sorted(t for pid in one.worker_pids for t in finished[pid, one.resume]) for one in passes]
    taken = [sorted(returned[one.number]) for one in passes]

    def at(t_s: float) -> int:
        n = bisect_right(begins, t_s) - 1
        count = bisect_right(made[n], t_s) - bisect_right(taken[n], t_s) if n >= 0 else 0
        # Of several ranks, each has a queue alike.
        return max(1, len(roles.ranks)) * max(0, count) * (batch_bytes or 0)

    return at


def not_shared(samples: Sequence[TelemetrySample], pids: Collection[int], at: Callable[[float], float]) -> list[Level]:
    """The negative of what the tree's processes share, at the dear readings: it grows by what is copied on write, and
    by nothing else that a process does alone. Of the longest run of readings between which nobody came or went."""
    best: list[Level] = []
    run: list[Level] = []
    among: set[int] = set()
    for sample in samples:
        if sample.ram_bytes is None:
            continue
        read = {
            p.pid: p.anon_bytes - p.own_bytes
            for p in sample.processes
            if p.anon_bytes is not None and p.own_bytes is not None
        }
        if not read.keys() >= set(pids):
            continue
        if read.keys() != among:
            run, among = [], set(read)
        run.append(Level(step=at(sample.t_s), bytes=-sum(read.values())))
        best = run if len(run) >= len(best) else best
    return best


def tree_levels(samples: Sequence[TelemetrySample], at: Callable[[float], float]) -> list[TreeLevel]:
    """The dear readings, and the cheap looks between them: by what processes hold more than at the reading before,
    where the same ones are there. Batches come and go in between."""
    levels = []
    reading: TelemetrySample | None = None
    for sample in samples:
        if sample.ram_bytes is not None:
            reading = sample
        if reading is None or reading.ram_bytes is None:
            continue
        then, now = _held(reading), _held(sample)
        if then.keys() != now.keys():
            continue
        more = sum(now.values()) - sum(then.values())
        levels.append(TreeLevel(step=at(sample.t_s), read_step=at(reading.t_s), bytes=reading.ram_bytes + more))
    return levels


def _held(sample: TelemetrySample) -> dict[int, int]:
    return {p.pid: p.anon_bytes or 0 for p in sample.processes}
