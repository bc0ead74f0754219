"""The loader's side of a window: what its workers' batches took, and whose they were."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from vtune.analysis.roles import Roles
from vtune.domain.events import BatchLoaded

Array = NDArray[np.float64]
Kinds = NDArray[np.int_]
# Pass and number.
Batch = tuple[int, int]

# As many batches of workers as make a mean; with fewer since the start-up, those before it count, too.
ENOUGH_LOADS = 20
LOADS_BY_WORKER = 3
# Fewer rows than this say nothing.
LEAST_ROWS = 5
# A worker that gave none of the last so many rounds' batches has come to the end of its data.
ROUNDS = 3
# Costs recur where chance would show that in one window of a thousand; each kind was seen so often, and the period is
# no longer than this.
BY_CHANCE = 1e-3
LEAST_OF_A_KIND = 3
LONGEST = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSide:
    delivering: int
    load_s: Array
    cpu_s: Array
    dispatch_s: Array
    kind: Kinds
    pattern: Kinds
    # Of each batch; None where nobody knows.
    samples: Array | None = None


@dataclass(frozen=True, slots=True, order=True)
class _Row:
    started_s: float
    batch: Batch
    worker: int
    load_s: float
    cpu_s: float
    dispatch_s: float
    samples: int


def alone(load_s: Array) -> WorkerSide:
    """Without workers: every batch is made where it is asked for."""
    kind, pattern = _alike(len(load_s))
    return WorkerSide(
        delivering=0,
        load_s=load_s,
        cpu_s=np.full(len(load_s), np.nan),
        dispatch_s=np.zeros(len(load_s)),
        kind=kind,
        pattern=pattern,
    )


def loads_by_batch(roles: Roles, loaded: Iterable[BatchLoaded]) -> dict[Batch, BatchLoaded]:
    """Persistent workers serve several passes, and count how often they were resumed."""
    passes = {(pid, one.resume): one.number for one in roles.passes for pid in one.worker_pids}
    return {
        (number, load.index): load for load in loaded if (number := passes.get((load.pid, load.resume))) is not None
    }


def worker_side(roles: Roles, by_batch: Mapping[Batch, BatchLoaded], *, begin_s: float) -> WorkerSide | None:
    """Of delivered batches only: to take what happens to be finished at the end would leave out the slow ones."""
    rows = _rows(roles, by_batch)
    delivering = _delivering(roles, by_batch)
    since = [row for row in rows if row.started_s >= begin_s and row.worker in delivering]
    if len(since) < max(ENOUGH_LOADS, LOADS_BY_WORKER * len(delivering)):
        since = [row for row in rows if row.worker in delivering]
    if len(since) < LEAST_ROWS:
        return None
    since.sort()
    in_order = roles.settings.get("in_order") is not False
    kind, pattern = _kinds(roles, since, len(delivering)) if in_order else _alike(len(since))
    return WorkerSide(
        delivering=len(delivering),
        load_s=np.asarray([row.load_s for row in since]),
        cpu_s=np.asarray([row.cpu_s for row in since]),
        dispatch_s=np.asarray([row.dispatch_s for row in since]),
        kind=kind,
        pattern=pattern,
        samples=np.asarray([float(row.samples) for row in since]) if all(row.samples for row in since) else None,
    )


def _rows(roles: Roles, by_batch: Mapping[Batch, BatchLoaded]) -> list[_Row]:
    there = {(batch.pass_number, batch.index): batch.returned_s for batch in roles.batches}
    by_worker: dict[tuple[int, int], list[tuple[Batch, BatchLoaded]]] = defaultdict(list)
    for batch, load in sorted(by_batch.items()):
        by_worker[batch[0], load.pid].append((batch, load))
    rows: list[_Row] = []
    met: set[int] = set()
    for (_, pid), own in sorted(by_worker.items()):
        for n, (batch, load) in enumerate(own):
            # A worker's first batch pays for imports and open files, and all workers start at once.
            first = n == 0 and pid not in met
            if first or batch not in there:
                continue
            free_s = own[n - 1][1].finished_s if n else load.started_s
            ordered_s = there.get(own[n - roles.prefetch][0], free_s) if n >= roles.prefetch else free_s
            waited_s = max(0.0, load.started_s - max(free_s, ordered_s))
            took_s = load.finished_s - load.started_s
            rows.append(_Row(load.started_s, batch, load.worker, took_s, load.cpu_s, waited_s, load.samples))
        met.add(pid)
    return rows


def _delivering(roles: Roles, by_batch: Mapping[Batch, BatchLoaded]) -> tuple[int, ...]:
    """Numbers of the workers that still give batches, in their order."""
    every = tuple(range(roles.workers))
    if not roles.batches:
        return every
    last_pass = roles.batches[-1].pass_number
    own = [by_batch.get((last_pass, batch.index)) for batch in roles.batches if batch.pass_number == last_pass]
    if len(own) < 2 * ROUNDS * roles.workers:
        return every
    if roles.settings.get("in_order") is not False:
        # Without order a slow worker may miss so many rounds and still have something to give.
        own = own[-ROUNDS * roles.workers :]
    return tuple(sorted({load.worker for load in own if load is not None})) or every


def _kinds(roles: Roles, rows: Sequence[_Row], delivering: int) -> tuple[Kinds, Kinds]:
    """Where the costs recur, batch by batch: by worker (one has a slow core, or the large files), or by place in the
    data (slices of a volume, one long sample in five). Drawn alike they would not meet as they do."""
    if len({row.batch[0] for row in rows}) > 1:
        return _alike(len(rows))
    given = sorted(batch.index for batch in roles.batches if batch.pass_number == rows[0].batch[0])
    place = {number: at for at, number in enumerate(given)}
    places = np.asarray([place[row.batch[1]] for row in rows])
    load_s = np.asarray([row.load_s for row in rows])
    longest = min(LONGEST, len(rows) // LOADS_BY_WORKER)
    least, found = BY_CHANCE, 1
    for period in range(2, longest + 1):
        chance = _by_chance(load_s, places % period, period) * (1 if period == delivering else longest)
        # A multiple of the true period tells no more, and has more to fit.
        if chance < least:
            least, found = chance, period
    return (places % found, np.arange(found)) if found > 1 else _alike(len(rows))


def _by_chance(load_s: Array, own: Kinds, groups: int) -> float:
    """Analysis of variance: how often equal groups would differ as much."""
    counts = np.bincount(own, minlength=groups)
    freedom = len(load_s) - groups
    if counts.min() < LEAST_OF_A_KIND or freedom < groups:
        return 1.0
    means = np.bincount(own, weights=load_s, minlength=groups) / counts
    between = float((counts * (means - load_s.mean()) ** 2).sum()) / (groups - 1)
    within = float(((load_s - means[own]) ** 2).sum()) / freedom
    if within <= 0:
        return 0.0 if between > 0 else 1.0
    return float(fdtrc(groups - 1, freedom, between / within))


def _alike(count: int) -> tuple[Kinds, Kinds]:
    return np.zeros(count, int), np.zeros(1, int)
